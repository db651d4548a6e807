"""The quotas that an account needs for an environment. New accounts have small ones."""

from __future__ import annotations

from infra.costs import Traffic
from infra.settings import EnvironmentSettings

# An account must leave so many of its concurrent executions unreserved.
_LAMBDA_UNRESERVED = 100


def quotas(settings: EnvironmentSettings, traffic: Traffic) -> list[str]:
    """One line for each quota that the environment needs at its largest."""
    return [_lambda_concurrency(settings), _fargate(settings), *_of_the_model(settings, traffic)]


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


def _of_the_model(settings: EnvironmentSettings, traffic: Traffic) -> list[str]:
    inference = settings.inference
    if inference.kind == "bedrock":
        requests = traffic.answers_per_hour / 60
        tokens = requests * (traffic.input_tokens + traffic.output_tokens)
        needed = (
            f"{requests:,.0f} requests and {tokens:,.0f} tokens a minute for {traffic.streams:,} "
            "streams"
        )
        return [f"Bedrock {inference.bedrock.inference_profile}: {needed}, and access to the model"]
    if inference.kind == "sagemaker":
        return [
            (
                f"SageMaker {inference.sagemaker.instance_type} for endpoint usage: "
                f"{inference.sagemaker.instances_max}"
            )
        ]
    return []
