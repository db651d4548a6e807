"""The CDK app: `cdk synth -c env=dev -c region=eu-west-1 -c installation=acme`.

Without the context the variables ENV, REGION and INSTALLATION count.
"""

from __future__ import annotations

import os
import sys

import aws_cdk as cdk

from evenflow.infra.application import build_application
from evenflow.infra.constructs.domain import DomainOutsideZoneError
from evenflow.infra.constructs.edge.web_client import PageNotBuiltError
from evenflow.infra.constructs.network.network import UnreachableImageError
from evenflow.infra.environments import UnknownEnvironmentError, environment
from evenflow.infra.function_package import FunctionPackageError
from evenflow.infra.pager import NobodyIsPagedError
from evenflow.infra.regions import UnknownRegionError, context_key

_REFUSALS = (
    UnknownEnvironmentError,
    UnknownRegionError,
    NobodyIsPagedError,
    DomainOutsideZoneError,
    FunctionPackageError,
    PageNotBuiltError,
    UnreachableImageError,
)


def main() -> int:
    """Synthesize the environment that the context or the variables name."""
    app = cdk.App()
    name, region, installation = (
        app.node.try_get_context(key) or os.environ.get(key.upper(), "")
        for key in ("env", "region", "installation")
    )
    # CDK tells a single key alone, never the whole context.
    entry = app.node.try_get_context(context_key(region))
    try:
        settings = environment(
            name,
            region=region,
            installation=installation,
            context={context_key(region): entry},
        )
        build_application(app, settings)
    except _REFUSALS as error:
        print(error, file=sys.stderr)
        return 1
    app.synth()
    return 0


sys.exit(main())
