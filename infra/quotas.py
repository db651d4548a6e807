"""The quotas that an account needs for an environment. New accounts have small ones."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from infra.costs import Traffic
from infra.settings import EnvironmentSettings

# An account must leave so many of its concurrent executions unreserved.
_LAMBDA_UNRESERVED = 100
# Bedrock takes so many tokens of the quota for each token that a newer Claude writes.
_CLAUDE_BURN_DOWN = 5


@dataclass(frozen=True, slots=True)
class Quota:
    """A quota of the account, and how much of it the environment needs at its largest.

    Args:
        service: the service's code in Service Quotas.
        name: what it is called, for people.
        code: its code there. "": the quotas of models and instances are found by `words`.
        words: what its name there begins with, and what else is in it.
        needed: in the quota's own unit.
        why: what needs so much.
    """

    service: str
    name: str
    needed: float
    why: str
    code: str = ""
    words: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """One line."""
        return f"{self.name}: {self.needed:,.10g} ({self.why})"

    def is_called(self, name: str) -> bool:
        """Whether Service Quotas means this one by a name."""
        begins, *others = (word.lower() for word in self.words)
        found = name.lower()
        return found.startswith(begins) and all(word in found for word in others)


def quotas(settings: EnvironmentSettings, traffic: Traffic) -> list[Quota]:
    """Those that limit the environment at its largest."""
    return [
        *_lambda_concurrency(settings),
        _fargate(settings),
        _table_writes(traffic),
        *_of_the_model(settings, traffic),
    ]


def announced(settings: EnvironmentSettings, traffic: Traffic) -> list[str]:
    """A line for each, and for what is not a number."""
    lines = [quota.text for quota in quotas(settings, traffic)]
    if settings.functions.reserved_concurrency is None:
        lines.insert(
            0,
            "Lambda concurrent executions: none reserved; each waiting poll takes one of the "
            "account's",
        )
    if settings.inference.kind == "bedrock":
        lines.append(f"access to {settings.inference.bedrock.foundation_model}")
    return lines


def _fargate(settings: EnvironmentSettings) -> Quota:
    handler, workers = settings.handler, settings.workers
    tasks = handler.tasks_max * handler.deployment_percent // 100
    cores, why = (
        tasks * handler.cpu / 1024,
        f"{tasks} tasks: a deployment while {handler.tasks_max} run",
    )
    if workers is not None:
        cores += workers.tasks_max * workers.cpu / 1024
        # Workers are deployed first, and handlers when those have settled.
        deploying = workers.tasks_max * workers.deployment_percent // 100 * workers.cpu / 1024
        cores = max(cores, deploying + handler.tasks_max * handler.cpu / 1024)
        why += f", and {workers.tasks_max} workers; or a deployment of those"
    return Quota("fargate", "Fargate On-Demand vCPU", cores, why, code="L-3032A538")


def _lambda_concurrency(settings: EnvironmentSettings) -> Iterator[Quota]:
    reserved = settings.functions.reserved_concurrency
    if reserved is not None:
        yield Quota(
            "lambda",
            "Lambda concurrent executions",
            reserved.total + _LAMBDA_UNRESERVED,
            f"{reserved.total} reserved, {_LAMBDA_UNRESERVED} that stay free",
            code="L-B99A9384",
        )


def _table_writes(traffic: Traffic) -> Quota:
    per_second = traffic.streams * (
        1 / traffic.chunk_seconds + traffic.other_writes / traffic.answer_seconds
    )
    return Quota(
        "dynamodb",
        "DynamoDB writes a second of a table",
        round(per_second, -2),
        f"{traffic.streams:,} streams; a new table takes 4,000 at first",
        code="L-AB614373",
    )


def _of_the_model(settings: EnvironmentSettings, traffic: Traffic) -> Iterator[Quota]:
    inference = settings.inference
    if inference.kind == "bedrock":
        yield _bedrock_tokens(inference.bedrock.inference_profile, traffic)
    if inference.kind == "sagemaker":
        instance = inference.sagemaker.instance_type
        yield Quota(
            "sagemaker",
            f"SageMaker {instance} for endpoint usage",
            inference.sagemaker.instances_max,
            "instances_max",
            words=(f"{instance} for endpoint usage",),
        )


def _bedrock_tokens(profile: str, traffic: Traffic) -> Quota:
    claude = "anthropic." in profile
    counted = _CLAUDE_BURN_DOWN if claude else 1
    answers = traffic.answers_per_hour / 60
    why = f"{answers:,.0f} answers a minute, {traffic.streams:,} streams"
    return Quota(
        "bedrock",
        f"Bedrock tokens a minute for {profile}",
        answers * (traffic.input_tokens + counted * traffic.output_tokens),
        f"{why}; a token that Claude writes counts as {counted}" if claude else why,
        words=(
            "global cross-region" if profile.startswith("global.") else "cross-region",
            "tokens per minute for",
        ),
    )
