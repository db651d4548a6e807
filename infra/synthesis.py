"""Synthesizes the environment that CDK's context names. `cdk` runs it by app.py."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import aws_cdk as cdk
from aws_cdk.cloud_assembly_schema import Manifest

from evenflow.infra.announce import summary
from evenflow.infra.application import build_application
from evenflow.infra.assets.function_package import FunctionPackageError
from evenflow.infra.assets.page_build import PageNotBuiltError, build_missing_page
from evenflow.infra.constructs.domain import DomainOutsideZoneError
from evenflow.infra.constructs.network.network import UnreachableImageError
from evenflow.infra.settings.context import DEFAULT_ENVIRONMENT, settings_from_context
from evenflow.infra.settings.environments import UnknownEnvironmentError
from evenflow.infra.settings.observability_settings import NobodyIsPagedError
from evenflow.infra.settings.regions import UnknownRegionError
from evenflow.infra.settings.setting_paths import WrongSettingError
from evenflow.infra.settings.synthesized_settings import write_settings


class CommandLineTooOldError(Exception):
    """The CDK command line is older than the schema of this CDK."""


_EXPECTED_ERRORS = (
    CommandLineTooOldError,
    UnknownEnvironmentError,
    UnknownRegionError,
    WrongSettingError,
    NobodyIsPagedError,
    DomainOutsideZoneError,
    FunctionPackageError,
    PageNotBuiltError,
    UnreachableImageError,
)


def main() -> int:
    """Synthesize the environment that the context names; returns the exit status."""
    app = cdk.App()
    try:
        _synthesize(app)
    except _EXPECTED_ERRORS as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def _synthesize(app: cdk.App) -> None:
    _check_command_line()
    if app.node.try_get_context("env") is None:
        print(f"no -c env=… is given: env={DEFAULT_ENVIRONMENT}", file=sys.stderr)
    settings = settings_from_context(app.node.get_all_context())
    build_missing_page()
    build_application(app, settings)
    assembly = Path(app.synth().directory)
    write_settings(settings, assembly)
    print(summary(settings, assembly), file=sys.stderr)


def _check_command_line() -> None:
    """Reject an old command line. Its own message advises an unusable release."""
    readable, needed = os.environ.get("CDK_CLI_ASM_VERSION", ""), Manifest.version()
    if readable and int(readable.partition(".")[0]) < int(needed.partition(".")[0]):
        raise CommandLineTooOldError(
            f"the CDK command line {os.environ.get('CDK_CLI_VERSION', '')} can't read what this "
            f"CDK writes (schema {needed}). Use infra/node_modules/.bin/cdk, which `make cdk` "
            "installs, or `npm install --global aws-cdk@2`. npm's `latest`, 3.0.0, is a mistaken "
            "release, older than its number"
        )
