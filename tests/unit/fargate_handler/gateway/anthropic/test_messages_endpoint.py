"""Requests of Anthropic's API, as the model is asked."""

from __future__ import annotations

from evenflow.fargate_handler.gateway.anthropic.request import read_call
from evenflow.fargate_handler.orchestrator.incoming_message import TRANSLATED


def test_its_parameters_have_names_that_were_translated() -> None:
    call = read_call(b'{"model":"m","max_tokens":5,"messages":[{"role":"user","content":"hi"}]}')
    assert (call.request.options.max_tokens, call.request.echo) == (5, TRANSLATED)
