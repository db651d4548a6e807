"""Makes the token source that the settings name. It imports only what that one needs."""
# ruff: noqa: PLC0415

from __future__ import annotations

import logging

from evenflow.fargate_handler.settings.forward_proxy import forward_proxy
from evenflow.fargate_handler.settings.handler_settings import HandlerSettings
from evenflow.fargate_handler.settings.model_values import Guardrail
from evenflow.fargate_handler.token_sources.bedrock_terms import BedrockTerms
from evenflow.fargate_handler.token_sources.demo.passages import Passages
from evenflow.fargate_handler.token_sources.demo.source import DemoModel
from evenflow.fargate_handler.token_sources.openai import OpenAIModel
from evenflow.fargate_handler.token_sources.port import TokenSource
from evenflow.fargate_handler.token_sources.server_profile import ServerProfile
from evenflow.stream_core.delivery.delivery_clock import DeliveryClock

_logger = logging.getLogger(__name__)


def make_token_source(settings: HandlerSettings, clock: DeliveryClock) -> TokenSource:
    """A token source in the running loop. The demo model's timers use `clock`.

    Raises:
        ConfigurationError: the proxy to the model's server cannot be used.
    """
    if settings.model == "openai":
        key = settings.model_api_key
        secret = key.get_secret_value() if key else None
        return OpenAIModel(
            str(settings.model_url),
            settings.model_name,
            secret,
            settings.model_max_tokens,
            response_bytes=settings.response_bytes,
            continues=settings.model_continues,
            proxy=_logged_proxy(str(settings.model_url)),
            profile=ServerProfile.parse(settings.model_profile),
        )
    if settings.model == "grpc":
        from evenflow.fargate_handler.inference.worker_source import GrpcWorkers

        return GrpcWorkers(settings.workers, settings)
    if settings.model == "bedrock":
        from evenflow.fargate_handler.token_sources.bedrock import BedrockModel

        return BedrockModel(
            settings.model_name,
            settings.model_max_tokens,
            settings.generations_per_node,
            bedrock_terms(settings),
        )
    if settings.model == "sagemaker":
        from evenflow.fargate_handler.token_sources.sagemaker import SageMakerModel

        return SageMakerModel(
            settings.model_name,
            settings.model_max_tokens,
            settings.generations_per_node,
            settings.response_bytes,
        )
    return DemoModel(Passages.read(settings.docs), clock, settings.demo_seed)


def bedrock_terms(settings: HandlerSettings) -> BedrockTerms:
    """How Bedrock is to treat every call."""
    guardrail = settings.bedrock_guardrail
    return BedrockTerms(
        settings.bedrock_cache_ttl,
        settings.bedrock_service_tier,
        Guardrail.parse(guardrail) if guardrail else None,
        settings.bedrock_guardrail_mode,
    )


def _logged_proxy(url: str) -> str | None:
    """The forward proxy to the model's server, if there is one. Logs its address."""
    proxy = forward_proxy(url)
    if proxy is not None:
        _logger.info(
            "the model's server is called through the proxy %s, which HTTP_PROXY, HTTPS_PROXY or "
            "ALL_PROXY names",
            proxy.rpartition("@")[2],
        )
    return proxy
