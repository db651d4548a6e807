"""The bodies of `POST /operator`, which `evenflow answers`, `models`, `nodes` and so on call."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from evenflow.stream_core.base.agents import ServiceClass

AUDIENCE = "#operator"
"""The audience of an operator's token. It is signed with the nodes' keys; no client gets one."""


class _OperatorQuestion(BaseModel):
    """One thing to do.

    Args:
        here: whether only this node does it. Otherwise it asks the others, too.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    here: bool = False


class ListAnswers(_OperatorQuestion):
    """List the answers that nodes are giving."""

    do: Literal["list_answers"] = "list_answers"


class CancelOne(_OperatorQuestion):
    """Cancel an answer, as its reader could."""

    do: Literal["cancel_answer"] = "cancel_answer"
    response_id: str = Field(max_length=200)


class ListModels(_OperatorQuestion):
    """List what nodes have learned of their models."""

    do: Literal["list_models"] = "list_models"


class ResetModel(_OperatorQuestion):
    """Forget what was learned of a model: its limit, its pauses and its breakers."""

    do: Literal["reset_model"] = "reset_model"
    model: str = Field(max_length=200)


class ListNodes(_OperatorQuestion):
    """List the nodes, by their leases."""

    do: Literal["list_nodes"] = "list_nodes"


class SetLogLevel(_OperatorQuestion):
    """Set the level from which lines are logged, until the next start."""

    do: Literal["set_log_level"] = "set_log_level"
    level: Literal["DEBUG", "INFO", "WARNING", "ERROR"]


OperatorQuestion = ListAnswers | CancelOne | ListModels | ResetModel | ListNodes | SetLogLevel
OPERATOR_QUESTION: TypeAdapter[OperatorQuestion] = TypeAdapter(
    Annotated[OperatorQuestion, Field(discriminator="do")]
)


class RunningAnswer(BaseModel):
    """An answer that a node is giving. Times are in seconds.

    Args:
        session: 16 digits of the SHA-256 of the session's id, as in log lines.
        state: `waiting` for a place, `running`, `parked`, as its readers have paused it, or
            `at_tools`, which its client runs.
        since: since it was accepted.
        first_token: from its acceptance to its first token. None: there is none yet.
        attempt: of the model; more than 1 after failures.
    """

    response_id: str
    tenant: str
    agent: str
    session: str
    model: str
    service_class: ServiceClass
    state: Literal["waiting", "running", "parked", "at_tools"]
    since: float
    first_token: float | None
    tokens: int
    entries: int
    readers: int
    attempt: int


class ModelState(BaseModel):
    """What a node has learned of a model.

    Args:
        limit: the calls at once that this node may make. None: no limit is known.
        is_failing: whether its breaker is open, so that its messages are refused.
        paused_for: seconds for which no call starts, since it refuses calls.
    """

    model: str
    running: int
    limit: int | None
    is_failing: bool
    paused_for: float


class NodeState(BaseModel):
    """A node, as another one sees its lease.

    Args:
        seconds_left: until its lease runs out, unless it is renewed.
    """

    name: str
    address: str | None
    seconds_left: float
    is_lost: bool


class NodeAnswer(BaseModel):
    """What one node answers. Only the list that was asked for is there.

    Args:
        has_done: whether there was something to do.
    """

    node: str
    has_done: bool = True
    answers: list[RunningAnswer] = []
    models: list[ModelState] = []
    nodes: list[NodeState] = []


class OperatorAnswer(BaseModel):
    """What the nodes answer.

    Args:
        unreachable: the addresses of nodes that did not.
    """

    nodes: list[NodeAnswer]
    unreachable: list[str] = []
