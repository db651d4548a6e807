"""Whether alarms of an environment with users wake somebody."""

from __future__ import annotations

from evenflow.infra.settings.stack_settings import AlarmSettings

WHOM_TO_PAGE = (
    "set alarms.page_email=on-call@example.com or alarms.page_topic_arn=<SNS topic>, or, if that "
    "is meant, alarms.nobody_is_paged=true; by `-c`, or in EvenflowService(alarms=AlarmSettings(…))"
)


class NobodyIsPagedError(Exception):
    """An environment with users would wake nobody. The message says what to set."""


def check_somebody_is_paged(like: str, alarms: AlarmSettings) -> None:
    """Refuse an environment like staging or prod whose alarms wake nobody.

    Raises:
        NobodyIsPagedError: nobody is named, and it isn't said that this is meant.
    """
    if like == "dev" or alarms.somebody_is_paged or alarms.nobody_is_paged:
        return
    raise NobodyIsPagedError(f"alarms of {like} page nobody: {WHOM_TO_PAGE}")
