"""Servers of OpenAI's kind differ: what they refuse, in their words, and how they are asked."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest

from evenflow.fargate_handler.token_sources.error_objects import UpstreamErrorObject
from evenflow.fargate_handler.token_sources.model_refusals import ParametersRefused
from evenflow.fargate_handler.token_sources.openai import OpenAIModel
from evenflow.fargate_handler.token_sources.openai_failures import Failures
from evenflow.fargate_handler.token_sources.port import (
    ModelFinish,
    ModelOptions,
    ModelRequest,
    TokenSink,
)
from evenflow.fargate_handler.token_sources.server_profile import (
    ServerProfile,
    is_about_a_value,
    rejected_parameters,
)
from evenflow.stream_core.base.errors import (
    ModelRefused,
    UnsupportedByModel,
    UpstreamAnswered,
)
from evenflow.stream_core.session.conversation import Turn
from tests.unit.fargate_handler.token_sources.recording_sink import RecordingSink

_NO_OPTIONS = ModelOptions()
_TURNS = (Turn("system", "Be short."), Turn("user", "hi"))


def _openai(message: str, param: str, code: str = "unsupported_parameter") -> dict[str, Any]:
    return {"error": {"message": message, "param": param, "code": code}}


_NO_MAX_TOKENS = _openai(
    "Unsupported parameter: 'max_tokens' is not supported with this model. Use "
    "'max_completion_tokens' instead.",
    "max_tokens",
)


def _mistral(*place: object) -> dict[str, Any]:
    wrong = {"type": "extra_forbidden", "loc": ["body", *place], "input": True}
    return {
        "object": "error",
        "message": {"detail": [wrong | {"msg": "Extra inputs are not permitted"}]},
        "type": "invalid_request_error",
        "code": None,
    }


_NO_STREAM_OPTIONS = _mistral("stream_options", "include_usage")


@pytest.mark.parametrize(
    ("body", "names"),
    [
        (_NO_MAX_TOKENS, {"max_tokens", "max_completion_tokens"}),
        (_NO_STREAM_OPTIONS, {"stream_options"}),
        (_mistral("parallel_tool_calls"), {"parallel_tool_calls"}),
        # Azure's older versions
        (
            {"error": {"message": "Unrecognized request argument supplied: stream_options"}},
            {"stream_options"},
        ),
        # Gemini
        (
            [
                {
                    "error": {
                        "code": 400,
                        "message": 'Invalid JSON payload received. Unknown name "max_tokens": '
                        "Cannot find field.",
                        "status": "INVALID_ARGUMENT",
                    }
                }
            ],
            {"max_tokens"},
        ),
        # Groq, xAI, Fireworks, a gateway that nests
        ({"error": {"message": "property 'reasoning_effort' is unsupported"}},
         {"reasoning_effort"}),
        ({"error": "Argument not supported on this model: parallelToolCalls"},
         {"parallel_tool_calls"}),
        ({"error": {"message": "Extra inputs are not permitted, field: 'verbosity'"}},
         {"verbosity"}),
        ({"error": {"message": '{"detail":[{"type":"extra_forbidden","loc":["body","stream_options"'
                               ']}]}'}}, {"stream_options"}),
        # o1
        (
            _openai(
                "Unsupported value: 'messages[0].role' does not support 'system' with this model.",
                "messages[0].role",
                "unsupported_value",
            ),
            {"role"},
        ),
        # Ark, Databricks, and what others say
        (
            _openai("The parameter `stream_options` specified in the request is not valid",
                    "stream_options", "InvalidParameter"),
            {"stream_options"},
        ),
        ({"error": {"message": "The parameter `stream_options` is not valid"}}, {"stream_options"}),
        (
            {"error_code": "BAD_REQUEST", "message": '{"error":{"message":"Bad request: json: '
             'unknown field \\"stream_options\\"\\n"}}'},
            {"stream_options"},
        ),
        ({"error": {"message": "stream_options is not implemented yet"}}, {"stream_options"}),
        ({"error": {"message": "stream_options is not currently supported"}}, {"stream_options"}),
        ({"error": {"message": "stream_options can't be used here"}}, {"stream_options"}),
        ({"error": {"message": "Bad request", "param": "stream_options"}}, {"stream_options"}),
        ({"error": {"message": "Bad request", "param": "max_tokens"}}, {"max_tokens"}),
        (
            {"error": "'max_tokens' is deprecated and can not be used with this model; use "
             "'max_completion_tokens'"},
            {"max_tokens", "max_completion_tokens"},
        ),
        # GLM, chat templates, Ark
        ({"error": {"code": "1214", "message": "Incorrect role information"}}, {"role"}),
        ({"error": {"message": "Unexpected message role.", "code": 400}}, {"role"}),
        (
            _openai("The parameter `messages.role` specified in the request are not valid: "
                    "invalid value: `developer`, supported values are: `system`, `user`.",
                    "messages.role", "InvalidParameter"),
            {"role"},
        ),
        # Whoever sent the value may hear of it: what others send may be accepted.
        ({"error": {"message": "Invalid verbosity", "param": "verbosity"}}, {"verbosity", "value"}),
        # What is no refusal of a parameter
        (
            _openai("max_tokens is too large: 90000. This model supports at most 4096 completion "
                    "tokens", "max_tokens", "invalid_value"),
            set(),
        ),
        (_openai("max_tokens: at most 50", "max_tokens", "bad_request"), set()),
        (
            _openai("The parameter `max_tokens` specified in the request is not valid: expected a "
                    "value <= 12288", "max_tokens", "InvalidParameter"),
            set(),
        ),
        ({"detail": [{"type": "less_than_equal", "loc": ["body", "max_tokens"],
                      "msg": "Input should be less than or equal to 8192"}]}, set()),
        ({"error": {"message": "Bad request", "param": "messages"}}, set()),
        ({"error": {"message": "Bad request, with stream_options", "param": "tools"}}, set()),
        ({"error": {"message": "This model's maximum context length is 4096 tokens"}}, set()),
        ({"error": {"message": "tools is not supported by this model"}}, set()),
    ],
)  # fmt: skip
def test_what_a_server_does_not_know_is_found_in_its_words(body: object, names: set[str]) -> None:
    said = UpstreamErrorObject.of(body)
    assert rejected_parameters(said.details, said.param) == names


def test_a_value_that_is_not_known_says_nothing_of_other_requests() -> None:
    words = "Unsupported value: 'reasoning_effort' does not support 'xhigh' with this model."
    refused = rejected_parameters(words)
    assert "reasoning_effort" in refused
    assert is_about_a_value(refused)


class Server:
    """A model whose server refuses parameters."""

    def __init__(
        self, refuses: dict[str, dict[str, Any]], status: int = 400, **settings: Any
    ) -> None:
        self.model = OpenAIModel("http://model/v1", "m", None, **settings)
        self.asked: list[dict[str, Any]] = []
        self.keys: list[str] = []
        self._refuses = refuses
        self._status = status
        self.model._call = self._call  # type: ignore[method-assign]

    async def _call(
        self, request: ModelRequest, sink: TokenSink, profile: ServerProfile
    ) -> ModelFinish:
        body = self.model._body(request, profile)
        self.asked.append(body)
        self.keys.append(request.key)
        for name, error in self._refuses.items():
            roles = [message["role"] for message in body["messages"]]
            if name in body or name in roles:
                raise Failures().answered(self._status, {}, json.dumps(error).encode())
        sink.push("Hello")
        return ModelFinish("stop", None)

    async def ask(self, options: ModelOptions = _NO_OPTIONS, **more: Any) -> str:
        """The answer to a request."""
        sink = RecordingSink()
        request = ModelRequest("a", _TURNS, 1, key="k", options=options, **more)
        await self.model.generate(request, sink)
        return sink.text


_TRANSLATED = ModelOptions(max_tokens=50)


async def test_what_was_added_is_left_out_and_the_next_request_costs_one_call() -> None:
    server = Server({"stream_options": _NO_STREAM_OPTIONS})
    assert await server.ask(translated=False) == "Hello"
    assert ["stream_options" in body for body in server.asked] == [True, False]
    assert server.keys == ["k", "k:2"], "it is another request"
    assert await server.ask() == "Hello"
    assert len(server.asked) == 3
    await server.model.close()


async def test_what_was_translated_gets_its_other_name() -> None:
    server = Server({"max_tokens": _NO_MAX_TOKENS})
    assert await server.ask(_TRANSLATED) == "Hello"
    lengths = [(body.get("max_tokens"), body.get("max_completion_tokens")) for body in server.asked]
    assert lengths == [(50, None), (None, 50)]
    assert await server.ask(_TRANSLATED) == "Hello"
    assert len(server.asked) == 3
    await server.model.close()


async def test_the_bound_of_a_setting_gets_it_too_where_the_client_named_no_length() -> None:
    server = Server({"max_tokens": _NO_MAX_TOKENS}, max_tokens=500)
    assert await server.ask(translated=False) == "Hello"
    assert server.asked[-1]["max_completion_tokens"] == 500
    await server.model.close()


async def test_what_a_client_named_itself_is_told_to_it() -> None:
    server = Server({"max_tokens": _NO_MAX_TOKENS})
    await server.ask(_TRANSLATED)  # which teaches the other name
    with pytest.raises(ModelRefused) as refused:
        await server.ask(_TRANSLATED, translated=False)
    assert (refused.value.code, refused.value.param) == ("unsupported_parameter", "max_tokens")
    assert len(server.asked) == 3
    await server.model.close()


async def test_both_are_left_out_and_each_model_of_a_server_has_its_own() -> None:
    refuses = {"stream_options": _NO_STREAM_OPTIONS, "max_tokens": _NO_MAX_TOKENS}
    server = Server(refuses)
    assert await server.ask(_TRANSLATED) == "Hello"
    assert len(server.asked) == 3
    assert await server.ask(_TRANSLATED, model="other") == "Hello"
    assert len(server.asked) == 6
    await server.model.close()


async def test_a_server_that_refuses_both_names_is_asked_with_each_once() -> None:
    other = _openai("Unsupported parameter: 'max_completion_tokens'", "max_completion_tokens")
    server = Server({"max_tokens": _NO_MAX_TOKENS, "max_completion_tokens": other})
    with pytest.raises(ParametersRefused):
        await server.ask(_TRANSLATED)
    assert len(server.asked) == 2
    await server.model.close()


async def test_a_request_that_is_refused_again_teaches_nothing() -> None:
    """Its sender may have written what the server repeats."""
    unknown = _openai("Unknown parameter: 'stream_options.foo'", "stream_options.foo")
    server = Server({"stream_options": unknown})
    passed = ModelOptions(passed={"stream_options": {"foo": 1}})
    with pytest.raises(ModelRefused):
        await server.ask(passed, translated=False)
    server._refuses = {}
    await server.ask()
    assert server.asked[-1]["stream_options"] == {"include_usage": True}
    await server.model.close()


async def test_instructions_get_the_role_that_the_model_knows() -> None:
    error = "Unsupported value: 'messages[0].role' does not support 'system' with this model."
    server = Server({"system": _openai(error, "messages[0].role", "unsupported_value")})
    assert await server.ask() == "Hello"
    assert [message["role"] for message in server.asked[-1]["messages"]] == ["developer", "user"]
    await server.ask()
    assert len(server.asked) == 3
    await server.model.close()


@pytest.mark.parametrize(
    ("words", "calls"),
    [("Unexpected keyword argument 'stream_options'", 2), ("stream_options is not supported", 1)],
)
async def test_a_server_in_python_that_fails_at_an_argument_is_asked_without_it(
    words: str, calls: int
) -> None:
    server = Server({"stream_options": {"detail": words}}, status=500)
    with suppress(UpstreamAnswered):
        assert await server.ask() == "Hello"
    assert len(server.asked) == calls
    await server.model.close()


async def test_the_role_that_a_server_does_not_know_is_the_other_one() -> None:
    error = {"error": {"code": "1214", "message": "Incorrect role information"}}
    server = Server({"developer": error}, profile=ServerProfile.parse("developer"))
    assert await server.ask() == "Hello"
    assert [message["role"] for message in server.asked[-1]["messages"]] == ["system", "user"]
    await server.model.close()


async def test_a_hint_is_left_out_for_whom_it_was_translated() -> None:
    server = Server({"parallel_tool_calls": _mistral("parallel_tool_calls")})
    assert await server.ask(ModelOptions(parallel_tool_calls=False)) == "Hello"
    with pytest.raises(ModelRefused):
        await server.ask(ModelOptions(parallel_tool_calls=False), translated=False)
    await server.model.close()


async def test_a_setting_says_it_before_the_first_request() -> None:
    profile = ServerProfile.parse("max_completion_tokens, developer,-stream_options")
    server = Server({"max_tokens": _NO_MAX_TOKENS}, profile=profile)
    await server.ask(_TRANSLATED)
    (body,) = server.asked
    assert (body["max_completion_tokens"], "stream_options" in body) == (50, False)
    assert body["messages"][0]["role"] == "developer"
    await server.model.close()


@pytest.mark.parametrize(
    ("url", "refused"), [("https://example.com/a.png", True), ("data:image/png;base64,aGk=", False)]
)
def test_a_server_that_takes_no_addresses_is_asked_none(url: str, refused: bool) -> None:
    turn = Turn("user", "", parts=({"type": "image_url", "image_url": {"url": url}},))
    request = ModelRequest("a", (turn,), 1)
    ServerProfile().check_images(request)
    profile = ServerProfile.parse("-image_url")
    if not refused:
        profile.check_images(request)
        return
    with pytest.raises(UnsupportedByModel) as wrong:
        profile.check_images(request)
    assert wrong.value.param == "image_url"


def test_what_no_profile_has_is_refused_with_what_there_is() -> None:
    with pytest.raises(
        ValueError, match=r"'-streaming'; it is a list, with commas, of: max_tokens"
    ):
        ServerProfile.parse("developer,-streaming")
    assert ServerProfile.parse("") == ServerProfile()
    assert replace(ServerProfile(), length="max_tokens") == ServerProfile.parse("max_tokens")
