"""A worker's process."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from typing import TYPE_CHECKING

import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc

from evenflow.fargate_handler.inference.channel_options import worker_options
from evenflow.fargate_handler.inference.llm_v1 import inference_pb2
from evenflow.fargate_handler.inference.llm_v1.inference_pb2_grpc import (
    add_InferenceServicer_to_server,
)
from evenflow.fargate_handler.inference.service import InferenceService
from evenflow.fargate_handler.model_source import make_token_source
from evenflow.fargate_handler.runtime.clock_driver import ClockDriver
from evenflow.fargate_handler.settings.handler_settings import ConfigurationError, HandlerSettings
from evenflow.stream_core.delivery.delivery_clock import DeliveryClock

if TYPE_CHECKING:
    from evenflow.fargate_handler.tracing.call_trace import CallTraces

_STOP_SECONDS = 5.0
_SERVICE = inference_pb2.DESCRIPTOR.services_by_name["Inference"].full_name


class Worker:
    """Serves `llm.v1.Inference` and gRPC's health protocol.

    Args:
        traces: follows calls, where traces are exported.

    Raises:
        ConfigurationError: its model is `grpc`, so it would call other workers.
    """

    def __init__(
        self,
        settings: HandlerSettings,
        loop: asyncio.AbstractEventLoop,
        traces: CallTraces | None = None,
    ) -> None:
        if settings.model == "grpc":
            raise ConfigurationError(
                "EVENFLOW_MODEL=grpc: a worker needs a model of its own, not other workers"
            )
        self._settings = settings
        clock = DeliveryClock(time.monotonic(), settings)
        self._driver = ClockDriver(clock, loop, time.monotonic, lambda: None)
        self._source = make_token_source(settings, clock)
        self._health = health.aio.HealthServicer()
        self._server = grpc.aio.server(options=worker_options(settings))
        self._service = InferenceService(self._source, settings, traces)
        add_InferenceServicer_to_server(self._service, self._server)
        health_pb2_grpc.add_HealthServicer_to_server(self._health, self._server)

    @property
    def public_addresses(self) -> str:
        """Its address and service, for the log."""
        return f"grpc://{self._address} ({_SERVICE})"

    async def start(self) -> None:
        """Listen.

        Raises:
            ConfigurationError: the address can't be used. The message names the variables.
        """
        try:
            self._server.add_insecure_port(self._address)
        except RuntimeError as error:
            raise ConfigurationError(
                f"EVENFLOW_WORKER_PORT={self._settings.worker_port}: cannot listen on "
                f"{self._address} (EVENFLOW_WORKER_HOST); is the port taken?"
            ) from error
        self._driver.start()
        await self._server.start()
        await self._health.set(_SERVICE, health_pb2.HealthCheckResponse.SERVING)

    async def drain(self) -> None:
        """Refuse new calls, which handlers give to others, and let running answers finish."""
        await self._health.enter_graceful_shutdown()
        await self._server.stop(self._settings.drain_seconds)

    async def stop(self) -> None:
        """Close everything."""
        await self._server.stop(0)
        # gRPC has cancelled what was left, but doesn't wait for it.
        with suppress(TimeoutError):
            await asyncio.wait_for(self._service.idle(), _STOP_SECONDS)
        await self._source.close()
        self._driver.stop()

    @property
    def _address(self) -> str:
        host = self._settings.worker_host
        return (
            f"[{host}]:{self._settings.worker_port}"
            if ":" in host
            else f"{host}:{self._settings.worker_port}"
        )
