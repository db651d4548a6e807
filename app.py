"""The CDK app: `cdk synth -c env=dev`, or ENV=dev."""

from __future__ import annotations

import os
import sys

import aws_cdk as cdk

from infra.application import NobodyIsPagedError, build_application
from infra.constructs.edge.web_client import PageNotBuiltError
from infra.environments import UnknownEnvironmentError, environment
from infra.function_package import FunctionPackageError


def main() -> int:
    """Synthesize the environment that the context or the variable ENV names."""
    app = cdk.App()
    name = app.node.try_get_context("env") or os.environ.get("ENV", "")
    try:
        build_application(app, environment(name))
    except (
        UnknownEnvironmentError,
        NobodyIsPagedError,
        FunctionPackageError,
        PageNotBuiltError,
    ) as error:
        print(error, file=sys.stderr)
        return 1
    app.synth()
    return 0


sys.exit(main())
