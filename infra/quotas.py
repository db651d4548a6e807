"""The quotas that an account needs for an environment. New accounts have small ones."""

from __future__ import annotations

import re

from infra.costs import Traffic
from infra.settings import EnvironmentSettings

# An account must leave so many of its concurrent executions unreserved.
_LAMBDA_UNRESERVED = 100
# Defaults of an account in us-east-1 and elsewhere.
_TABLE_WRITES, _EDGE_REQUESTS = 40_000, 250_000
# Of Anthropic's models those from Claude 3.7 on take five tokens of the quota for one of output, by
# the user guide of Bedrock, "How tokens are counted". All others take one.
_ONE_FOR_ONE = re.compile(r"anthropic\.claude-(v|instant|3-(haiku|sonnet|opus|5)-)")
_ANTHROPIC_BURNDOWN = 5


def quotas(settings: EnvironmentSettings, traffic: Traffic) -> list[str]:
    """One line for each quota that the environment needs at its largest."""
    return [
        _lambda_concurrency(settings),
        _fargate(settings),
        _tables(settings, traffic),
        _cloudfront(traffic),
        *_of_the_model(settings, traffic),
    ]


def _fargate(settings: EnvironmentSettings) -> str:
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
    return f"Fargate On-Demand vCPU: {cores:g} ({why})"


def _lambda_concurrency(settings: EnvironmentSettings) -> str:
    reserved = settings.functions.reserved_concurrency
    if reserved is None:
        return (
            "Lambda concurrent executions: none reserved; each waiting poll takes one of the "
            "account's"
        )
    return (
        f"Lambda concurrent executions: {reserved.total + _LAMBDA_UNRESERVED} "
        f"({reserved.total} reserved, {_LAMBDA_UNRESERVED} that stay free)"
    )


def _tables(settings: EnvironmentSettings, traffic: Traffic) -> str:
    writes, warm = most_writes_per_second(settings, traffic), settings.data.warm_writes_per_second
    line = (
        f"DynamoDB write units of a table: {writes:,.0f} a second at most, into the buffer of "
        f"responses (an account allows {_TABLE_WRITES:,}; a new table takes {warm:,} at once)"
    )
    if writes <= warm:
        return line
    return f"{line}. The rest waits in memory for minutes: raise data.warm_writes_per_second"


def most_writes_per_second(settings: EnvironmentSettings, traffic: Traffic) -> float:
    """What the response buffer takes if every answer is written as often as one ever is."""
    return traffic.streams * 1_000 / settings.limits.store_interval_ms


def _cloudfront(traffic: Traffic) -> str:
    answers = traffic.answers_per_hour / 3600
    requests = answers * (1 + traffic.polled * traffic.polls_per_answer)
    gigabits = traffic.gigabytes_per_hour * 8 / 3600
    return (
        f"CloudFront: {requests:,.0f} requests a second (a distribution has {_EDGE_REQUESTS:,}) "
        f"and {gigabits:.2f} Gbit/s (150); messages in a WebSocket are not counted"
    )


def _of_the_model(settings: EnvironmentSettings, traffic: Traffic) -> list[str]:
    inference = settings.inference
    if inference.kind == "bedrock":
        requests = traffic.answers_per_hour / 60
        model = inference.bedrock
        burndown = output_burndown(model.foundation_model)
        used = requests * (traffic.input_tokens + burndown * traffic.output_tokens)
        reserved = traffic.streams * model.max_tokens
        needed = (
            f"{requests:,.0f} requests and {used + reserved:,.0f} tokens a minute for "
            f"{traffic.streams:,} streams ({used:,.0f} used, an output token counts {burndown} "
            f"times; {reserved:,} reserved, {model.max_tokens:,} by each answer that runs)"
        )
        return [f"Bedrock {model.inference_profile}: {needed}, and access to the model"]
    if inference.kind == "sagemaker":
        return [
            (
                f"SageMaker {inference.sagemaker.instance_type} for endpoint usage: "
                f"{inference.sagemaker.instances_max}"
            )
        ]
    return []


def output_burndown(foundation_model: str) -> int:
    """How many tokens of Bedrock's quota an output token takes."""
    of_anthropic = foundation_model.startswith("anthropic.")
    return _ANTHROPIC_BURNDOWN if of_anthropic and not _ONE_FOR_ONE.match(foundation_model) else 1
