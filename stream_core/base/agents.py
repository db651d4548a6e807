"""Agents, and the terms under which a message is to be answered."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Collection, Mapping, Sequence
from enum import StrEnum
from typing import Annotated, Any, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from evenflow.stream_core.base.channel import NAME_PATTERN
from evenflow.stream_core.base.errors import NotFound


class ServiceClass(StrEnum):
    """The priority of a tenant's answers."""

    INTERACTIVE = "interactive"
    STANDARD = "standard"
    BATCH = "batch"

    def or_lower(self, requested: ServiceClass | None) -> ServiceClass:
        """The class that a message requests, if it is lower than this one."""
        if requested is None:
            return self
        return max(self, requested, key=list(ServiceClass).index)


_INT64 = 2**63
# It goes on as one header of a request, and many servers take 8 KiB of headers.
_MOST_METADATA_BYTES = 6_144

LONGEST_ANSWER = 10_000_000
"""In tokens. No model generates more."""
LONGEST_CONTEXT = 100_000_000
"""In tokens. No model has more."""
LONGEST_USER = 256


def metadata_header(metadata: dict[str, str]) -> str:
    """Metadata as JSON in printable ASCII."""
    return json.dumps(metadata, separators=(",", ":")).replace("\x7f", "\\u007f")


def _bounded(metadata: dict[str, str]) -> dict[str, str]:
    if len(metadata_header(metadata)) > _MOST_METADATA_BYTES:
        raise ValueError(f"must have at most {_MOST_METADATA_BYTES} bytes as JSON in ASCII")
    return metadata


Metadata = Annotated[
    dict[Annotated[str, Field(min_length=1, max_length=64)], Annotated[str, Field(max_length=512)]],
    Field(max_length=16),
    AfterValidator(_bounded),
]
"""The application's own names and values. They are passed to the model's server and never read."""

TimeoutMs = Annotated[int, Field(ge=1, le=86_400_000)]
User = Annotated[str, Field(min_length=1, max_length=LONGEST_USER)]


class MessageParams(BaseModel):
    """Parameters of the answer, by OpenAI's names. None: as the agent or the model has it."""

    model_config = ConfigDict(frozen=True, strict=True)

    temperature: Annotated[float, Field(ge=0, le=2)] | None = None
    top_p: Annotated[float, Field(ge=0, le=1)] | None = None
    max_tokens: Annotated[int, Field(ge=1, le=LONGEST_ANSWER)] | None = None
    stop: (
        Annotated[list[Annotated[str, Field(min_length=1, max_length=256)]], Field(max_length=4)]
        | None
    ) = None
    seed: Annotated[int, Field(ge=-_INT64, lt=_INT64)] | None = None


class GivenParams(MessageParams):
    """`MessageParams` as a client sends them. An unknown name is refused: it may be misspelt."""

    model_config = ConfigDict(extra="forbid")

    def taken(self) -> MessageParams:
        """The parameters, checked."""
        return MessageParams(**self.model_dump())


class MessageTerms(BaseModel):
    """The parameters of the answer to a message.

    Args:
        timeout_ms: the most milliseconds that the answer may take.
        user: the user of the message, if the application names one.
        model: the public name of the model. Empty for the agent's own, or the only one.
        traceparent: its sender's trace, `known_traceparent`.
        key: the id of the tenant's key with which it came. Empty: none.
        service_class: how urgent it is, where it is less so than its tenant's answers are.
        slo_ttft_ms: the milliseconds within which the first token should arrive.
        turns: the conversation that replaces the session's, in stored form.
        tools, tool_choice, parallel_tool_calls: the tools that its client runs, by OpenAI's names.
    """

    model_config = ConfigDict(frozen=True, strict=True)

    params: MessageParams = MessageParams()
    timeout_ms: TimeoutMs | None = None
    metadata: Metadata = {}
    user: str = ""
    model: str = ""
    traceparent: str = ""
    key: str = ""
    service_class: ServiceClass | None = None
    slo_ttft_ms: TimeoutMs | None = None
    turns: list[Any] = []
    tools: list[dict[str, Any]] = []
    tool_choice: Any = None
    parallel_tool_calls: bool | None = None

    def to_text(self) -> str:
        """The terms as the store keeps them. Empty where all are the default."""
        if self is NO_TERMS:
            return ""
        text = self.model_dump_json(exclude_defaults=True)
        return "" if text == "{}" else text

    def within(self, traceparent: str) -> Self:
        """The same terms, within a trace."""
        return self.model_copy(update={"traceparent": traceparent}) if traceparent else self

    @classmethod
    def from_text(cls, text: str) -> Self:
        """The terms in a text of `to_text`. Fields that this version lacks are left out."""
        return cls.model_validate_json(text) if text else cls()


NO_TERMS = MessageTerms()
"""The terms of a message that has only its text."""


BUILT_IN = "demo"
"""The name of the only agent, where none is configured."""

_DEMO_SUGGESTIONS = [
    "What is Evenflow?",
    "How does it treat slow readers?",
    "What happens when I close the tab?",
    "How do I use it from my OpenAI code?",
]
_MOST_NAMED = 20


class AgentsError(ValueError):
    """Agents are configured wrongly. The message is one line: where, the field, what it accepts."""


class Agent(BaseModel):
    """One agent. An empty field is as the settings or the model have it.

    A field's description states its valid values, for error messages.
    """

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")

    model: Annotated[str, Field(min_length=1, max_length=2_048)] | None = Field(
        None, description="the model's name at its server, or a name of EVENFLOW_MODELS"
    )
    instructions: str = Field(
        "", max_length=32_768, description="the system prompt, of 32,768 characters at most"
    )
    temperature: float | None = Field(None, ge=0, le=2, description="a number from 0 to 2")
    max_tokens: int | None = Field(
        None, ge=1, le=LONGEST_ANSWER, description="a whole number from 1 to 10,000,000"
    )
    context_tokens: int | None = Field(
        None, ge=1_024, le=LONGEST_CONTEXT, description="a whole number from 1,024 to 100,000,000"
    )
    silence_seconds: float | None = Field(
        None, ge=0.1, le=3_600, description="seconds from 0.1 to 3,600"
    )
    deadline_seconds: float | None = Field(
        None, ge=0.1, le=86_400, description="seconds from 0.1 to 86,400"
    )
    suggestions: list[Annotated[str, Field(min_length=1, max_length=200)]] = Field(
        [], max_length=8, description="a list of at most 8 questions, each of 1 to 200 characters"
    )


class Agents:
    """The agents in force.

    Args:
        by_name: at least one. The default is the one called `default`, else the first.
    """

    def __init__(self, by_name: Mapping[str, Agent]) -> None:
        self.replace(by_name)

    def replace(self, by_name: Mapping[str, Agent]) -> None:
        """Replace all agents."""
        self._by_name = dict(by_name)
        self._default = "default" if "default" in by_name else next(iter(by_name))

    @property
    def names(self) -> tuple[str, ...]:
        """The agents' names."""
        return tuple(self._by_name)

    def chosen(self, name: str | None, among: Collection[str] = ()) -> str:
        """Check an agent's name. None means the default one.

        Args:
            among: those that the caller's tenant may use. Empty: all.

        Raises:
            NotFound: there is no such agent. The message lists those that the caller may use.
        """
        usable = [name for name in self._by_name if not among or name in among]
        if name is None and usable:
            return self._default if self._default in usable else usable[0]
        if name not in usable:
            raise _unknown(name or self._default, usable)
        return name

    def find(self, name: str) -> Agent:
        """An agent by its name.

        Raises:
            NotFound: there is no such agent. The message lists those that there are.
        """
        if name not in self._by_name:
            raise _unknown(name, self.names)
        return self._by_name[name]


def _unknown(name: str, usable: Sequence[str]) -> NotFound:
    names = ", ".join(usable[:_MOST_NAMED])
    ellipsis = ", …" if len(usable) > _MOST_NAMED else ""
    return NotFound(
        f"there is no agent {name[:64]!r}; POST /session with one of: {names}{ellipsis}",
        code="agent_not_found",
        param="agent",
    )


def built_in_agents(*, demo: bool) -> dict[str, Agent]:
    """The one agent where none is configured.

    Args:
        demo: whether the demo model answers. Then a page suggests questions about Evenflow, the
            only thing that it has.
    """
    return {BUILT_IN: Agent(suggestions=_DEMO_SUGGESTIONS if demo else [])}


def agents_from_toml(text: str, where: str) -> dict[str, Agent]:
    """Read agents from TOML, one table each.

    Args:
        where: the name of the text, for error messages.

    Raises:
        AgentsError: the text is not TOML, or a table is wrong.
    """
    try:
        return _checked(tomllib.loads(text), where)
    except tomllib.TOMLDecodeError as error:
        raise AgentsError(f"{where}: this is not TOML ({error})") from None


def agents_from_json(text: str, where: str) -> dict[str, Agent]:
    """Read agents from a JSON object, one member each. Otherwise like `agents_from_toml`."""
    try:
        return _checked(json.loads(text), where)
    except json.JSONDecodeError as error:
        raise AgentsError(f"{where}: this is not JSON ({error})") from None


def agents_as_json(agents: Mapping[str, Agent]) -> str:
    """Write agents as the text that `agents_from_json` reads."""
    tables = {name: agent.model_dump(exclude_defaults=True) for name, agent in agents.items()}
    return json.dumps(tables, ensure_ascii=False, separators=(",", ":"))


def _checked(tables: Any, where: str) -> dict[str, Agent]:
    if not isinstance(tables, dict) or not tables:
        raise AgentsError(f"{where}: must have a table for each agent, and one agent at least")
    return {name: _agent(name, table, where) for name, table in tables.items()}


def _agent(name: str, table: Any, where: str) -> Agent:
    if not re.match(NAME_PATTERN, name):
        raise AgentsError(
            f"{where}: [{name[:80]}]: an agent's name has 1 to 64 letters, digits, `_`, `.` or `-`"
        )
    if not isinstance(table, dict):
        raise AgentsError(f"{where}: {name} must be an agent's table, [{name}]")
    try:
        return Agent.model_validate(table)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        field = str(first["loc"][0])
        if field not in Agent.model_fields:
            field_names = ", ".join(Agent.model_fields)
            raise AgentsError(
                f"{where}: [{name}] {field}: there is no such field; there are {field_names}"
            ) from None
        accepts = Agent.model_fields[field].description
        raise AgentsError(
            f"{where}: [{name}] {field}: must be {accepts} ({first['msg']})"
        ) from None
