"""The messages of a chat, as its page reads them after a reload."""

from __future__ import annotations

from typing import Any

from evenflow.fargate_handler.gateway.ai_sdk.endpoint import _with_answer
from evenflow.fargate_handler.orchestrator.session_messages import AnsweredMessage
from evenflow.stream_core.log.response_log import ResponseState
from evenflow.stream_core.stores.outcome import Outcome
from evenflow.stream_core.stores.session_store import LedgerEntry

_QUESTION: dict[str, Any] = {
    "id": "u1",
    "role": "user",
    "parts": [{"type": "text", "text": "What is the time?"}],
}
_CALL = {
    "type": "tool-clock",
    "toolCallId": "c1",
    "state": "output-available",
    "input": {},
    "output": "noon",
}
_BEGUN: dict[str, Any] = {"id": "a1", "role": "assistant", "parts": [{"type": "step-start"}, _CALL]}
_STEP = [{"type": "step-start"}, {"type": "text", "text": "Noon.", "state": "done"}]


def _read(message_id: str, *messages: dict[str, Any], said: str = "Noon.") -> list[dict[str, Any]]:
    entry = LedgerEntry(message_id, None, "", "r1", "task")
    outcome = Outcome(ResponseState.COMPLETED, (said,) if said else ())
    return _with_answer(messages, AnsweredMessage(entry, None, outcome))


def test_an_answer_is_a_message_behind_its_question() -> None:
    answer = {"id": "r1", "role": "assistant", "parts": _STEP}
    assert _read("k1", _QUESTION) == [_QUESTION, answer]


def test_an_answer_that_continues_a_message_is_a_further_step_of_it() -> None:
    whole = _BEGUN | {"parts": [*_BEGUN["parts"], *_STEP]}
    assert _read("more_k1", _QUESTION, _BEGUN) == [_QUESTION, whole]


def test_the_message_stays_as_it_was_while_nothing_has_come() -> None:
    assert _read("more_k1", _QUESTION, _BEGUN, said="") == [_QUESTION, _BEGUN]
