"""Whether alarms of an environment with users wake somebody."""

from __future__ import annotations

from evenflow.infra.stack_settings import AlarmSettings

WHOM_TO_PAGE = (
    "in infra/environments.py, or as an argument of EvenflowService, give it "
    "alarms=AlarmSettings(page_email=...) or AlarmSettings(page_topic_arn=...), or, if that is "
    "meant, AlarmSettings(nobody_is_paged=True)"
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
    raise NobodyIsPagedError(f"{like} has nobody whom its alarms wake: {WHOM_TO_PAGE}")
