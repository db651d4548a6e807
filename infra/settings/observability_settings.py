"""Settings of alarms and pages, of the canary, and of traces."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field, field_validator, model_validator

from evenflow.infra.settings.image_reference import ecr_image
from evenflow.infra.settings.stack_settings import Settings

# One address: SNS would not mail to a list of several.
_EMAIL = r"^[^@\s,]+@[^@\s,]+$"


class AlarmSettings(Settings):
    """The receivers of alarms, and the runbooks.

    Args:
        page_email: the on-call address, for alarms that readers feel or soon will.
        page_topic_arn: or an SNS topic of your own, such as a paging service's. Its policy must let
            `cloudwatch.amazonaws.com` publish. Then there is no topic `evenflow-<env>-pages`.
        nobody_is_paged: whether staging or prod may have neither.
        notice_email: the address for every change of every alarm, so also for those that can wait
            for the morning. None: `page_email` gets them. Set it where that address is a pager.
        runbook_base_url: the folder of docs/runbooks/ where readers of an alarm can open it, with a
            slash at its end. None: alarms say the runbook's first step themselves.
        quiet_frames_per_second: below this rate of all tasks nothing is a sudden drop. Take answers
            of 20 s at 20 frames a second that begin by chance. A minute is below half of the one
            before 40 times a day at a rate of 100, 6.7 times at 200, and never at 1,000 (computed
            from Poisson arrivals).
        monthly_budget_dollars: this environment's budget of a month. Notices go to the topic of
            notices: at 80 % spent, and when the forecast exceeds the budget. AWS counts by the tags
            `environment` and `installation`, once they are activated as cost-allocation tags
            (docs/costs.md). None: there is no budget.
    """

    page_email: str | None = Field(None, pattern=_EMAIL)
    page_topic_arn: str | None = Field(None, pattern=r"^arn:aws[^:]*:sns:[^:]+:[0-9]{12}:.+$")
    nobody_is_paged: bool = False
    notice_email: str | None = Field(None, pattern=_EMAIL)
    runbook_base_url: str | None = Field(None, pattern=r"^https://.*/$")
    quiet_frames_per_second: int = Field(1_000, ge=1)
    monthly_budget_dollars: int | None = Field(None, ge=1)

    @model_validator(mode="after")
    def _check_budget_has_address(self) -> Self:
        if self.monthly_budget_dollars is not None and self.notices_to is None:
            raise ValueError(
                "monthly_budget_dollars needs an address for its notices: set notice_email or "
                "page_email"
            )
        return self

    @model_validator(mode="after")
    def _check_one_page_topic(self) -> Self:
        if self.page_email is not None and self.page_topic_arn is not None:
            raise ValueError(
                "page_email is set beside page_topic_arn: subscribe it to that topic instead"
            )
        return self

    @property
    def notices_to(self) -> str | None:
        """The address that gets notices. None: there is none."""
        return self.notice_email or self.page_email

    @property
    def somebody_is_paged(self) -> bool:
        """Whether pages have a receiver."""
        return self.page_email is not None or self.page_topic_arn is not None


WHOM_TO_PAGE = (
    "set alarms.page_email=on-call@example.com or alarms.page_topic_arn=<SNS topic>, or, if that "
    "is meant, alarms.nobody_is_paged=true; by `-c`, or in "
    "service_settings(alarms=AlarmSettings(…))"
)


class NobodyIsPagedError(Exception):
    """Pages of an environment with users have no receiver. The message says what to set."""


def check_somebody_is_paged(like: str, alarms: AlarmSettings) -> None:
    """Check that pages of an environment like staging or prod have a receiver.

    Raises:
        NobodyIsPagedError: they have none, and `nobody_is_paged` is not set.
    """
    if like == "dev" or alarms.somebody_is_paged or alarms.nobody_is_paged:
        return
    raise NobodyIsPagedError(f"alarms of {like} page nobody: {WHOM_TO_PAGE}")


class CanarySettings(Settings):
    """The canary: one answer a minute through the public address, over every transport.

    Args:
        question: its answer should take the model a second: text that comes all at once looks like
            a stream that is held back. Each answer costs.
        tenant: its key is read from the secret of the tenants' keys, where it has one.
        timeout_seconds: when Lambda ends an attempt. The next one begins after a minute.
    """

    question: str = "Count from one to sixty in words."
    tenant: str = "public"
    timeout_seconds: Annotated[int, Field(ge=10, le=60)] = 55


class TracingSettings(Settings):
    """Traces of handlers and workers in X-Ray, by a collector in each task.

    Args:
        collector_image: AWS' collector for OpenTelemetry in a repository of yours, by its digest:
            tasks reach no public registry.
        share: the sampled share of the traces. Callers can't change it, since traces cost.
        collector_cpu: CPU reserved for the collector, in Fargate's units.
        collector_memory_mib: memory reserved for the collector, and its limit.
    """

    collector_image: str
    share: float = Field(0.05, ge=0, le=1)
    collector_cpu: int = Field(64, ge=32)
    collector_memory_mib: int = Field(128, ge=64)

    @field_validator("collector_image")
    @classmethod
    def _check_image(cls, reference: str) -> str:
        image = ecr_image(reference)
        if image is None or not image.is_by_digest:
            raise ValueError(
                "must be <account>.dkr.ecr.<region>.amazonaws.com/<repository>@sha256:<digest>"
            )
        return reference
