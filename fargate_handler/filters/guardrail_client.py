"""Calls a guardrail of Bedrock by `ApplyGuardrail`, for texts of any model."""

from __future__ import annotations

import asyncio
import random
from typing import Any

from evenflow.fargate_handler.filters.guardrail import GuardrailVerdict
from evenflow.fargate_handler.settings.model_values import Guardrail
from evenflow.fargate_handler.token_sources.aws_client import AwsClient
from evenflow.stream_core.base.errors import EvenflowError

_ATTEMPTS = 3
_PAUSE_SECONDS = (0.05, 0.25)
_CALL_SECONDS = 10.0


class GuardrailClient:
    """The client of one guardrail. A `Judge`.

    Args:
        most_calls: how many calls run at once.
    """

    def __init__(self, guardrail: Guardrail, most_calls: int) -> None:
        self._guardrail = guardrail
        self._client = AwsClient(
            "bedrock-runtime",
            most_calls,
            "EVENFLOW_FILTER_GUARDRAIL, and the permission bedrock:ApplyGuardrail",
        )

    async def judge(self, text: str) -> GuardrailVerdict:
        """Judge a text of the model's.

        Raises:
            EvenflowError: no call succeeded.
            TimeoutError: the last one took too long.
        """
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                async with asyncio.timeout(_CALL_SECONDS):
                    return _verdict(text, await self._call(text))
            except (EvenflowError, TimeoutError):
                if attempt == _ATTEMPTS:
                    raise
            await asyncio.sleep(random.uniform(*_PAUSE_SECONDS) * attempt)
        raise AssertionError("the last attempt returns or raises")

    async def close(self) -> None:
        """Close the connections."""
        await self._client.close()

    async def _call(self, text: str) -> dict[str, Any]:
        return await self._client.call(
            "apply_guardrail",
            guardrailIdentifier=self._guardrail.identifier,
            guardrailVersion=self._guardrail.version,
            source="OUTPUT",
            content=[{"text": {"text": text}}],
        )


def _verdict(text: str, answer: dict[str, Any]) -> GuardrailVerdict:
    if answer["action"] != "GUARDRAIL_INTERVENED":
        return GuardrailVerdict(text)
    replacement = "".join(output["text"] for output in answer.get("outputs", ()))
    return GuardrailVerdict(replacement, blocks=_blocks(answer.get("assessments", ())))


def _blocks(assessments: Any) -> bool:
    """Whether any policy blocks. Others only replace what they found."""
    if isinstance(assessments, dict):
        return assessments.get("action") == "BLOCKED" or any(map(_blocks, assessments.values()))
    if isinstance(assessments, list | tuple):
        return any(map(_blocks, assessments))
    return False
