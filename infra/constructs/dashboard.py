"""The dashboard that a runbook points to."""

from __future__ import annotations

from collections.abc import Sequence

from aws_cdk import Duration
from aws_cdk import aws_cloudwatch as cloudwatch
from constructs import Construct

from infra.settings import EnvironmentSettings

_WIDTH = 24
Row = tuple[str, list[cloudwatch.IWidget]]


def dashboard(
    scope: Construct,
    *,
    settings: EnvironmentSettings,
    alarms: Sequence[cloudwatch.IAlarm],
    rows: list[Row],
) -> cloudwatch.Dashboard:
    """`evenflow-<env>`: the state of every alarm on top, then the rows, each under its title."""
    board = cloudwatch.Dashboard(scope, "Dashboard", dashboard_name=settings.prefix, default_interval=Duration.hours(3))
    board.add_widgets(cloudwatch.AlarmStatusWidget(title="Alarms", alarms=alarms, width=_WIDTH, height=6))
    for title, widgets in rows:
        board.add_widgets(cloudwatch.TextWidget(markdown=f"## {title}", width=_WIDTH, height=1))
        board.add_widgets(*widgets)
    return board
