"""`evenflow answers`, `models`, `nodes`, `log-level` and `config`: a running server, for operators.

They ask the server at `EVENFLOW_HTTP_PORT` of this machine, with its environment variables and its
store's keys.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import aiohttp
from pydantic import SecretStr

from evenflow.command_line import CommandFailed
from evenflow.fargate_handler.chosen_adapters import signing_keys_in_use
from evenflow.fargate_handler.peers import operator_token
from evenflow.fargate_handler.settings.environment import PREFIX
from evenflow.fargate_handler.settings.handler_settings import HandlerSettings, load_settings
from evenflow.stream_core.auth.session_token import SessionTokens
from evenflow.stream_core.http.routes import OPERATOR
from evenflow.stream_core.protocols.operator.bodies import (
    CancelOne,
    ListAnswers,
    ListModels,
    ListNodes,
    OperatorAnswer,
    OperatorQuestion,
    ResetModel,
    SetLogLevel,
)
from evenflow.tenant_listing import in_columns

if TYPE_CHECKING:
    from evenflow.command_line import Commands

_ANSWER_SECONDS = 10.0
_LOOPBACK = "127.0.0.1"
_OF_ALL = ("0.0.0.0", "::", "")  # noqa: S104 - addresses of a server that listens everywhere


def add_to(commands: Commands) -> None:
    """Add the commands."""
    _add_answers(commands)
    _add_models(commands)
    nodes = commands.add_parser("nodes", help="list the nodes of a running server")
    nodes.set_defaults(question=lambda _: ListNodes(), show=_nodes)
    level = commands.add_parser("log-level", help="set the level of a running server's log")
    level.add_argument("level", choices=("DEBUG", "INFO", "WARNING", "ERROR"), type=str.upper)
    level.set_defaults(question=lambda options: SetLogLevel(level=options.level), show=_done)
    for parser in (nodes, level):
        _add_common(parser)
    config = commands.add_parser("config", help="the settings that a server would have here")
    config.add_argument("--all", action="store_true", help="also those that are not set")
    config.set_defaults(run=_config)


def _add_answers(commands: Commands) -> None:
    answers = commands.add_parser("answers", help="answers that a running server is giving")
    actions = answers.add_subparsers(metavar="action", required=True)
    listing = actions.add_parser("list", help="list them, the longest first")
    listing.add_argument("--tenant", help="only of this tenant")
    listing.set_defaults(question=lambda _: ListAnswers(), show=_answers)
    cancel = actions.add_parser("cancel", help="cancel one; its text so far is kept")
    cancel.add_argument("response_id")
    cancel.set_defaults(
        question=lambda options: CancelOne(response_id=options.response_id), show=_done
    )
    for parser in (listing, cancel):
        _add_common(parser)


def _add_models(commands: Commands) -> None:
    models = commands.add_parser("models", help="what a running server has learned of its models")
    actions = models.add_subparsers(metavar="action", required=True)
    listing = actions.add_parser("list", help="list limits, pauses and breakers")
    listing.set_defaults(question=lambda _: ListModels(), show=_models)
    reset = actions.add_parser("reset", help="forget them: the model is called as if it were new")
    reset.add_argument("model")
    reset.set_defaults(question=lambda options: ResetModel(model=options.model), show=_done)
    for parser in (listing, reset):
        _add_common(parser)


def _add_common(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="all fields, for programs")
    parser.set_defaults(run=_ask)


async def _ask(arguments: argparse.Namespace) -> int:
    settings = load_settings()
    question: OperatorQuestion = arguments.question(arguments)
    answer = await _answered(settings, question)
    if arguments.json:
        print(answer.model_dump_json(indent=2))
    else:
        show: Callable[[argparse.Namespace, OperatorAnswer], str] = arguments.show
        print(show(arguments, answer))
    for address in answer.unreachable:
        print(f"evenflow: the node at {address} did not answer", file=sys.stderr)
    return 0 if any(node.has_done for node in answer.nodes) else 1


async def _answered(settings: HandlerSettings, question: OperatorQuestion) -> OperatorAnswer:
    """What the server of this machine answers, for all nodes.

    Raises:
        CommandFailed: there is none, or it refuses.
    """
    host = _LOOPBACK if settings.http_host in _OF_ALL else settings.http_host
    url = f"http://{host}:{settings.http_port}"
    tokens = SessionTokens(await signing_keys_in_use(settings))
    headers = {"Authorization": f"Bearer {operator_token(tokens, time.time())}"}
    timeout = aiohttp.ClientTimeout(total=_ANSWER_SECONDS)
    try:
        async with (
            aiohttp.ClientSession(timeout=timeout) as http,
            http.post(
                url + OPERATOR.path, headers=headers, data=question.model_dump_json()
            ) as reply,
        ):
            body = await reply.read()
            if reply.status == 200:
                return OperatorAnswer.model_validate_json(body)
            status = reply.status
    except (aiohttp.ClientError, OSError) as error:
        raise CommandFailed(
            f"no server answers at {url} ({type(error).__name__}): is it running, and is "
            f"{PREFIX}HTTP_PORT here the same as there?"
        ) from error
    if status == 401:
        raise CommandFailed(
            f"the server at {url} has other keys: run this with its variables ({PREFIX}STORE_PATH, "
            f"or {PREFIX}TOKEN_KEYS), and as its user"
        )
    raise CommandFailed(f"the server at {url} answered {status}: is it of this version?")


def _answers(arguments: argparse.Namespace, answer: OperatorAnswer) -> str:
    rows = [
        (each.since, row)
        for node in answer.nodes
        for each in node.answers
        if arguments.tenant in (None, each.tenant)
        for row in [
            (
                each.response_id,
                each.tenant,
                each.agent,
                each.model,
                each.state,
                _seconds(each.since),
                "-" if each.first_token is None else _seconds(each.first_token),
                str(each.tokens),
                str(each.readers),
                node.node,
            )
        ]
    ]
    heading = (
        *("answer", "tenant", "agent", "model", "state", "since", "first token", "tokens"),
        *("readers", "node"),
    )
    if not rows:
        return "no answers are being given"
    return in_columns([heading, *(row for _, row in sorted(rows, reverse=True))])


def _models(_: argparse.Namespace, answer: OperatorAnswer) -> str:
    rows = [
        (
            each.model,
            str(each.running),
            "-" if each.limit is None else str(each.limit),
            "open: messages are refused" if each.is_failing else "closed",
            _seconds(each.paused_for) if each.paused_for else "-",
            node.node,
        )
        for node in answer.nodes
        for each in node.models
    ]
    if not rows:
        return "no model has been called since the start"
    return in_columns([("model", "running", "limit", "breaker", "paused for", "node"), *rows])


def _nodes(_: argparse.Namespace, answer: OperatorAnswer) -> str:
    by_name = {each.name: each for node in answer.nodes for each in node.nodes}
    rows = [
        (
            each.name,
            each.address or "-",
            "lost" if each.is_lost else _seconds(each.seconds_left),
            "yes" if any(node.node == each.name for node in answer.nodes) else "no",
        )
        for each in by_name.values()
    ]
    return in_columns([("node", "address", "lease runs for", "answers"), *rows])


def _done(_: argparse.Namespace, answer: OperatorAnswer) -> str:
    done = [node.node for node in answer.nodes if node.has_done]
    return f"done at {', '.join(done)}" if done else "no node has it; nothing was changed"


def _seconds(seconds: float) -> str:
    return f"{seconds:.1f} s"


def _config(arguments: argparse.Namespace) -> int:
    settings = load_settings()
    rows = list(_settings(settings, all_of_them=arguments.all))
    print(in_columns([("setting", "value", "from"), *rows]))
    return 0


def _settings(settings: HandlerSettings, *, all_of_them: bool) -> Iterator[tuple[str, str, str]]:
    for name in sorted(HandlerSettings.model_fields):
        is_set = name in settings.model_fields_set
        if is_set or all_of_them:
            origin = "environment" if is_set else "default"
            yield f"{PREFIX}{name.upper()}", _shown(getattr(settings, name)), origin


def _shown(value: Any) -> str:
    """A setting's value, without secrets."""
    if isinstance(value, SecretStr):
        return "(secret)" if value.get_secret_value() else ""
    if isinstance(value, dict) and any(isinstance(each, SecretStr) for each in value.values()):
        return f"(secrets of {', '.join(value)})"
    if isinstance(value, dict | list | tuple):
        return json.dumps(value, default=str)
    return "" if value is None else str(value)
