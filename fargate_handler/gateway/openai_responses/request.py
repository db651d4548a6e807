"""Reads the body of `POST /v1/responses`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from evenflow.fargate_handler.gateway.bodies.answer_length import take_length
from evenflow.fargate_handler.gateway.bodies.carried_parameters import check_carried
from evenflow.fargate_handler.gateway.bodies.json_values import check_json
from evenflow.fargate_handler.gateway.openai_responses.request_errors import unsupported, wrong
from evenflow.fargate_handler.orchestrator.incoming_message import WholeRequest
from evenflow.fargate_handler.token_sources.port import ModelOptions
from evenflow.stream_core.base.agents import MessageTerms
from evenflow.stream_core.protocols.evenflow.messages import parse
from evenflow.stream_core.protocols.openai_chat.bodies import SERVICE_TIER, class_of_tier
from evenflow.stream_core.protocols.openai_responses.bodies import RESPONSE_REQUEST, ResponseRequest
from evenflow.stream_core.protocols.openai_responses.namespaces import joined_name
from evenflow.stream_core.session.conversation import Turn

_SERVED = ("function", "custom")
_SEARCH = "tool_search"
_WEB_SEARCH = "web_search"
# Fields for the time at which a tool is offered to the model. Here all are offered at once.
_SEARCH_FIELDS = frozenset({"type", "defer_loading"})
_PLAIN_CHOICES = ("none", "auto", "required")


def chat_tools(tools: Sequence[dict[str, Any]]) -> tuple[dict[str, Any], ...]:
    """Translate the tools into the form of chat completions, with joined names for namespaces.

    A `tool_search` of the server is left out, since all tools are offered at once. So is a
    `web_search` next to tools of the client, since an agent can do without it.

    Raises:
        InvalidRequest: a tool is wrong, or only OpenAI's servers have it.
    """
    offered: list[dict[str, Any]] = []
    has_client_tools = _has_client_tools(tools)
    for place, tool in enumerate(tools):
        where = f"tools.{place}"
        if tool.get("type") == "namespace":
            offered += _namespace_tools(tool, where)
        elif not _is_left_out(tool, has_client_tools=has_client_tools):
            offered.append(_chat_tool(tool, where))
    return tuple(offered)


def kept_tools(tools: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The tools without those that `chat_tools` leaves out."""
    has_client_tools = _has_client_tools(tools)
    return [tool for tool in tools if not _is_left_out(tool, has_client_tools=has_client_tools)]


def _has_client_tools(tools: Sequence[dict[str, Any]]) -> bool:
    """Whether there are tools that the client runs itself."""
    return any(tool.get("type") in (*_SERVED, "namespace") for tool in tools)


def _is_left_out(tool: dict[str, Any], *, has_client_tools: bool) -> bool:
    kind = tool.get("type")
    if kind == _SEARCH:
        return tool.get("execution") != "client"
    return has_client_tools and kind == _WEB_SEARCH


def has_other_types(tools: Iterable[dict[str, Any]]) -> bool:
    """Whether there are types of tools that `response_tools` can't restore."""
    return any(tool["type"] not in _SERVED for tool in tools)


def response_tools(tools: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """The tools as the Responses API has them, from those of `chat_tools`."""
    return [_response_tool(tool["type"], dict(tool[tool["type"]])) for tool in tools]


_Choice = str | dict[str, Any] | None


def chat_choice(choice: _Choice, names: set[str]) -> _Choice:
    """The choice of a tool as chat completions have it.

    Args:
        names: the names of the request's tools.

    Raises:
        InvalidRequest: it is wrong, or not one of the tools.
    """
    if choice is None or (isinstance(choice, str) and choice in _PLAIN_CHOICES):
        return choice
    match choice:
        case {"type": "function" | "custom" as kind, "name": str(name), **fields}:
            if isinstance(space := fields.get("namespace"), str):
                name = joined_name(space, name)
            if name not in names:
                raise wrong(
                    f"tool_choice names {name[:64]!r}, which is none of the tools", "tool_choice"
                )
            return {"type": kind, kind: {"name": name}}
        case {"type": "allowed_tools", "mode": str(mode), "tools": list(tools)}:
            choices = [chat_choice(tool, names) for tool in tools]
            return {"type": "allowed_tools", "allowed_tools": {"mode": mode, "tools": choices}}
        case {"type": str(kind)}:
            raise unsupported(
                f"tool_choice {kind[:64]!r} is a tool of OpenAI's servers, which is not served "
                "here",
                "tool_choice",
            )
    raise wrong(
        f"tool_choice must be one of {', '.join(_PLAIN_CHOICES)}, or name a tool", "tool_choice"
    )


def _namespace_tools(space: dict[str, Any], where: str) -> list[dict[str, Any]]:
    """The tools in a namespace. Its description goes into that of the first tool."""
    name, inner = space.get("name"), space.get("tools")
    if not isinstance(name, str) or not name:
        raise wrong(f"{where}.name must be a text", f"{where}.name")
    if not isinstance(inner, list) or not all(isinstance(tool, dict) for tool in inner):
        raise wrong(f"{where}.tools must be a list of tools", f"{where}.tools")
    offered = []
    for place, tool in enumerate(inner):
        chat_tool = _chat_tool(tool, f"{where}.tools.{place}")
        definition = chat_tool[chat_tool["type"]]
        definition["name"] = joined_name(name, definition["name"])
        offered.append(chat_tool)
    if offered and isinstance(about := space.get("description"), str):
        first = offered[0][offered[0]["type"]]
        description = first.get("description", "")
        first["description"] = f"{description}\n\nThis and all tools of {name}: {about}".strip()
    return offered


def _chat_tool(tool: dict[str, Any], where: str) -> dict[str, Any]:
    kind = tool.get("type")
    if kind not in _SERVED:
        raise unsupported(
            f"{where}: tools of the type {str(kind)[:64]!r} run only on OpenAI's servers, and not "
            "here; offer functions or custom tools, also in namespaces, and run them in the client",
            where,
        )
    if not isinstance(tool.get("name"), str) or not tool["name"]:
        raise wrong(f"{where}.name must be a text", f"{where}.name")
    check_json(tool, where)
    definition = {
        name: value
        for name, value in tool.items()
        if name not in _SEARCH_FIELDS and value is not None
    }
    match definition.get("format"):
        case {"type": "grammar", **grammar}:
            definition["format"] = {"type": "grammar", "grammar": grammar}
    return {"type": kind, kind: definition}


def _response_tool(kind: str, definition: dict[str, Any]) -> dict[str, Any]:
    match definition.get("format"):
        case {"type": "grammar", "grammar": dict(grammar)}:
            definition["format"] = {"type": "grammar", **grammar}
    if kind == "function":
        definition = {"parameters": None, "strict": None, **definition}
    return {"type": kind, **definition}


_IGNORED = frozenset(
    {
        "access_programs",
        "background_options",
        "client_metadata",
        "image",
        "max_tool_calls",
        "prompt_cache_key",
        "prompt_cache_options",
        "prompt_cache_retention",
        "safety_identifier",
        SERVICE_TIER,
        "stream_options",
        "truncation",
    }
)
"""Fields that don't change the answer here. The response has OpenAI's default for each."""
_NOT_SERVED = {
    "context_management": "conversations are not shortened here",
    "conversation": "conversations are not kept here; give `previous_response_id`, or all items",
    "moderation": "there is no moderation here",
    "n": "a response is one answer",
    "prompt": "prompts are not kept here; give `instructions` and `input`",
}
_LOGPROBS = "message.output_text.logprobs"
_ECHOED = (
    *("model", "previous_response_id", "max_output_tokens", "temperature", "top_p"),
    *("user", "background", "store", "parallel_tool_calls"),
)


@dataclass(frozen=True, slots=True)
class ResponseCall:
    """A checked request, before its input is read. `is_kept` is false with `store: false`."""

    request: ResponseRequest
    options: ModelOptions
    terms: MessageTerms
    stream: bool
    background: bool
    is_kept: bool

    def of_model(self, model: str) -> ResponseCall:
        """The same request for the model `model`."""
        update = {"model": model}
        terms = self.terms.model_copy(update=update)
        return replace(self, request=self.request.model_copy(update=update), terms=terms)

    @property
    def items(self) -> list[dict[str, Any]]:
        """The items of the input."""
        items = self.request.input
        if isinstance(items, str):
            return [{"type": "message", "role": "user", "content": items}]
        return items

    def incoming_message(
        self, earlier_turns: tuple[Turn, ...], new_turns: tuple[Turn, ...]
    ) -> WholeRequest:
        """The whole request to the model.

        Args:
            earlier_turns: the turns of the earlier response.
            new_turns: the turns of this request's input.

        Raises:
            InvalidRequest: there is nothing to answer.
        """
        if not (earlier_turns or new_turns):
            raise wrong("input must be a text, or have items", "input")
        instructions = self.request.instructions
        first = (Turn("system", instructions),) if instructions else ()
        echo = _echo(self.request) | {"own_turns": len(new_turns)}
        return WholeRequest((*first, *earlier_turns, *new_turns), self.options, echo=echo)


def read_call(body: bytes | bytearray) -> ResponseCall:
    """Read the body of a request, without its input.

    Raises:
        InvalidRequest: it is not JSON, a field is wrong, or would change the answer and can't be
            done here.
    """
    request = parse(RESPONSE_REQUEST, body)
    return ResponseCall(
        request=request,
        options=_options(request),
        terms=MessageTerms(
            model=request.model or "",
            user=request.user or "",
            metadata=request.metadata or {},
            service_class=class_of_tier((request.model_extra or {}).get(SERVICE_TIER)),
        ),
        stream=bool(request.stream),
        background=bool(request.background),
        is_kept=request.store is not False or bool(request.background),
    )


def echoed(request: WholeRequest) -> dict[str, Any]:
    """The parameters of a request that its response repeats."""
    options, echo = request.options, request.echo
    return {
        **{name: echo.get(name) for name in _ECHOED},
        "background": bool(echo.get("background")),
        "store": echo.get("store") is not False,
        "instructions": request.turns[0].text if echo.get("instructed") else None,
        "metadata": echo.get("metadata", {}),
        "parallel_tool_calls": echo.get("parallel_tool_calls") is not False,
        "reasoning": {"effort": None, "summary": None, **echo.get("reasoning", {})},
        "service_tier": "default",
        "text": {"format": {"type": "text"}, **echo.get("text", {})},
        "tool_choice": echo.get("tool_choice", "auto"),
        "tools": echo.get("tools") or response_tools(options.tools),
        "top_logprobs": options.passed.get("top_logprobs", 0),
        "truncation": "disabled",
    }


def is_stored(request: WholeRequest) -> bool:
    """Whether a response can be requested by its id."""
    echo = request.echo
    return echo.get("store") is not False or bool(echo.get("background"))


def own_turns(request: WholeRequest) -> tuple[Turn, ...]:
    """The turns of a request's own input."""
    return request.turns[len(request.turns) - request.echo["own_turns"] :]


def continued_turns(request: WholeRequest) -> tuple[Turn, ...]:
    """The turns that a later request continues. Instructions are those of each request."""
    return request.turns[1:] if request.echo.get("instructed") else request.turns


def _echo(request: ResponseRequest) -> dict[str, Any]:
    """The parameters that a response repeats and the model's options lack."""
    tools = kept_tools(request.tools or [])
    echo: dict[str, Any] = {name: getattr(request, name) for name in _ECHOED}
    echo |= {
        "instructed": bool(request.instructions) or None,
        "metadata": request.metadata or None,
        "tools": tools if has_other_types(tools) else None,
        "tool_choice": request.tool_choice,
        "reasoning": request.reasoning and request.reasoning.model_dump(exclude_unset=True),
        "text": request.text and request.text.model_dump(exclude_unset=True, exclude_none=True),
    }
    present = {name: value for name, value in echo.items() if value is not None}
    for name, value in present.items():
        check_json(value, name)
    return present


def _options(request: ResponseRequest) -> ModelOptions:
    tools = chat_tools(request.tools or ())
    names = {tool[tool["type"]]["name"] for tool in tools}
    choice = chat_choice(request.tool_choice, names)
    passed = _passed(request)
    return ModelOptions(
        max_completion_tokens=take_length(passed, {"max_output_tokens": request.max_output_tokens}),
        temperature=request.temperature,
        top_p=request.top_p,
        tools=tools,
        tool_choice=choice if tools else None,
        parallel_tool_calls=request.parallel_tool_calls if tools else None,
        passed=passed,
    )


def _passed(request: ResponseRequest) -> dict[str, Any]:
    """The parameters that only the model reads, by the names of chat completions."""
    passed: dict[str, Any] = {}
    for name, value in (request.model_extra or {}).items():
        if value is None or name in _IGNORED:
            continue
        if name in _NOT_SERVED:
            raise unsupported(f"{name} is not served: {_NOT_SERVED[name]}", name)
        passed[name] = value
    if request.user is not None:
        passed["user"] = request.user
    if request.reasoning is not None and request.reasoning.effort is not None:
        passed["reasoning_effort"] = request.reasoning.effort
    if request.text is not None:
        passed |= _text_parameters(request.text.format, request.text.verbosity)
    if request.top_logprobs or _LOGPROBS in (request.include or ()):
        passed |= {"logprobs": True, "top_logprobs": request.top_logprobs or 0}
    check_carried(passed)
    for name, value in passed.items():
        check_json(value, name)
    return passed


def _text_parameters(form: Mapping[str, Any] | None, verbosity: str | None) -> dict[str, Any]:
    parameters = {} if verbosity is None else {"verbosity": verbosity}
    match form:
        case None | {"type": "text"}:
            return parameters
        case {"type": "json_object"}:
            return parameters | {"response_format": {"type": "json_object"}}
        case {"type": "json_schema"}:
            schema = {name: value for name, value in form.items() if name != "type"}
            return parameters | {"response_format": {"type": "json_schema", "json_schema": schema}}
    raise wrong("text.format.type must be text, json_object or json_schema", "text.format.type")
