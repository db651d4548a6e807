"""The quotas that an account needs for an environment. New accounts have small ones."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass

from evenflow.infra.estimates.traffic import Traffic
from evenflow.infra.settings.environment_settings import EnvironmentSettings
from evenflow.infra.settings.inference_settings import BedrockSettings

# Concurrent executions that an account must leave unreserved.
_LAMBDA_UNRESERVED = 100
# CloudFront's default for a distribution.
_EDGE_REQUESTS = 250_000
# Of Anthropic's models those from Claude 3.7 on take five tokens of the quota for one of output, by
# the user guide of Bedrock, "How tokens are counted". All others take one.
_ONE_FOR_ONE = re.compile(r"anthropic\.claude-(v|instant|3-(haiku|sonnet|opus|5)-)")
_ANTHROPIC_BURNDOWN = 5
_WARM_MORE = "raise data.warm_writes_per_second"


@dataclass(frozen=True, slots=True)
class Quota:
    """A quota of the account, and how much of it the environment needs at its largest.

    Args:
        service: the service's code in Service Quotas.
        name: its name in the table.
        code: its code there. "": the quotas of models and instances are found by `words`.
        words: what its name there begins with, and what else is in it.
        needed: in the quota's own unit.
        why: the reason for the number.
        at_once: the capacity at the start, which AWS raises with use up to the quota.
        to_do: how to have more at the start.
    """

    service: str
    name: str
    needed: float
    why: str
    code: str = ""
    words: tuple[str, ...] = ()
    at_once: float = math.inf
    to_do: str = ""

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
    """The quotas that limit the environment at its largest."""
    return [
        *_lambda_concurrency(settings),
        _fargate(settings),
        _table_writes(settings, traffic),
        *_of_the_model(settings, traffic),
    ]


def quota_lines(settings: EnvironmentSettings, traffic: Traffic) -> list[str]:
    """A line for each quota, and for requirements without a number."""
    lines = [quota.text for quota in quotas(settings, traffic)]
    if settings.functions.reserved_concurrency is None:
        lines.insert(
            0,
            "Lambda concurrent executions: none reserved; each waiting poll takes one of the "
            "account's",
        )
    if settings.inference.kind == "bedrock":
        lines.append(f"access to {settings.inference.bedrock.foundation_model}")
    lines.append(_cloudfront(traffic))
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


def _table_writes(settings: EnvironmentSettings, traffic: Traffic) -> Quota:
    writes, warm = most_writes_per_second(settings, traffic), settings.data.warm_writes_per_second
    why = f"at most, into the buffer of responses; a new table takes {warm:,} at once"
    if writes > warm:
        why += f", the rest waits in memory for minutes: {_WARM_MORE}"
    return Quota(
        "dynamodb",
        "DynamoDB writes a second of a table",
        round(writes),
        why,
        code="L-AB614373",
        at_once=warm,
        to_do=_WARM_MORE,
    )


def most_writes_per_second(settings: EnvironmentSettings, traffic: Traffic) -> float:
    """The writes of the response store if every answer is polled."""
    return traffic.streams * 1_000 / settings.limits.polled_store_interval_ms


def _cloudfront(traffic: Traffic) -> str:
    answers = traffic.answers_per_hour / 3600
    requests = answers * (1 + traffic.polled * traffic.polls_per_answer)
    gigabits = traffic.gigabytes_per_hour * 8 / 3600
    return (
        f"CloudFront: {requests:,.0f} requests a second (a distribution has {_EDGE_REQUESTS:,}) "
        f"and {gigabits:.3f} Gbit/s (150); messages in a WebSocket are not counted"
    )


def _of_the_model(settings: EnvironmentSettings, traffic: Traffic) -> Iterator[Quota]:
    inference = settings.inference
    if inference.kind == "bedrock":
        yield _bedrock_tokens(inference.bedrock, traffic)
    if inference.kind == "sagemaker":
        instance = inference.sagemaker.instance_type
        yield Quota(
            "sagemaker",
            f"SageMaker {instance} for endpoint usage",
            inference.sagemaker.instances_max,
            "instances_max",
            words=(f"{instance} for endpoint usage",),
        )


def _bedrock_tokens(model: BedrockSettings, traffic: Traffic) -> Quota:
    burndown = output_burndown(model.foundation_model)
    answers = traffic.answers_per_hour / 60
    used = answers * (traffic.input_tokens + burndown * traffic.output_tokens)
    reserved = traffic.streams * model.max_tokens
    return Quota(
        "bedrock",
        f"Bedrock tokens a minute for {model.inference_profile}",
        used + reserved,
        f"{answers:,.0f} answers a minute, {traffic.streams:,} streams: {used:,.0f} used, an "
        f"output token counts {burndown} times; {reserved:,} reserved, {model.max_tokens:,} by "
        "each answer that runs",
        words=(
            "global cross-region" if model.is_global else "cross-region",
            "tokens per minute for",
        ),
    )


def output_burndown(foundation_model: str) -> int:
    """How many tokens of Bedrock's quota an output token takes."""
    of_anthropic = foundation_model.startswith("anthropic.")
    return _ANTHROPIC_BURNDOWN if of_anthropic and not _ONE_FOR_ONE.match(foundation_model) else 1
