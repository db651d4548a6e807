"""What a wheel holds: our packages, and within infra the files that it deploys."""

from setuptools import find_packages, setup

_OURS = (
    "evenflow",
    "fargate_handler",
    "functions",
    "infra",
    "stream_aws",
    "stream_core",
    "stream_sqlite",
)

setup(
    packages=[
        *find_packages(include=[*_OURS, *(f"{name}.*" for name in _OURS)]),
        "infra.page",
        "infra.requirements",
        "infra.runbooks",
    ],
    package_dir={
        "infra.page": "web/dist",
        "infra.requirements": "requirements",
        "infra.runbooks": "docs/runbooks",
    },
    package_data={
        "infra.constructs.edge": ["viewer_host.js"],
        "infra.page": ["**/*"],
        "infra.requirements": ["functions.txt"],
        "infra.runbooks": ["*.md"],
    },
    include_package_data=False,
)
