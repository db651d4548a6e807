"""What a wheel holds: one package, `evenflow`, and the files that its infra deploys.

In a checkout `evenflow/` has a link to each folder at the top that belongs to the package, so
`evenflow.infra` is the same module here and in a wheel.
"""

from setuptools import find_packages, setup

_INFRA = "evenflow.infra"

setup(
    packages=[
        *find_packages(include=["evenflow", "evenflow.*"]),
        f"{_INFRA}.page",
        f"{_INFRA}.requirements",
        f"{_INFRA}.runbooks",
    ],
    package_dir={
        f"{_INFRA}.page": "web/dist",
        f"{_INFRA}.requirements": "requirements",
        f"{_INFRA}.runbooks": "docs/runbooks",
    },
    package_data={
        f"{_INFRA}.constructs.edge": ["viewer_host.js"],
        f"{_INFRA}.updates": ["immutable_properties.json"],
        f"{_INFRA}.page": ["**/*"],
        f"{_INFRA}.requirements": ["functions.txt"],
        f"{_INFRA}.runbooks": ["*.md"],
    },
    include_package_data=False,
)
