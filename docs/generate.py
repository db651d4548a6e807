"""Writes the pages of docs/ that code knows better (`PAGES`).

`--check` fails when one is out of date, or README.md names costs that docs/costs.md doesn't.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum
from pathlib import Path
from typing import TypeVar

from docs.api_page import api_page
from docs.costs import costs_page, stale_figures
from docs.doctor_page import doctor_page
from docs.drawing import architecture_svg
from docs.error_page import errors_page
from docs.grafana_dashboard import grafana_dashboard
from docs.licences import licences_page
from docs.log_lines import log_lines_page
from docs.markdown import paragraph
from docs.route_table import acceptance_section, calls_section
from docs.setting_groups import FIRST, GROUPS, ungrouped
from evenflow.fargate_handler.settings.handler_settings import HandlerSettings
from evenflow.stream_core.api_documents.asyncapi import asyncapi_document
from evenflow.stream_core.api_documents.openapi import openapi_document
from evenflow.stream_core.base.limits import Limits
from evenflow.stream_core.bounds import memory_bound as memory
from evenflow.stream_core.delivery.flow_control import FLOW_TRANSITIONS
from evenflow.stream_core.log.folded_entries import PIECE_DELTAS
from evenflow.stream_core.log.response_log import RESPONSE_TRANSITIONS
from evenflow.stream_core.metrics.canary_metrics import CANARY_METRICS
from evenflow.stream_core.metrics.metric_catalogue import (
    BURN_RATES,
    CATALOGUE,
    PROMISES,
    Metric,
    Promise,
)
from evenflow.stream_core.protocols.evenflow.connection_states import CONNECTION_TRANSITIONS

State = TypeVar("State", bound=StrEnum)
Event = TypeVar("Event", bound=StrEnum)

_FOLDER = Path(__file__).parent
_NOTE = "<!-- Written by `make docs` from the code: change it there. -->\n"
_READERS = 2_000
_TASK_MIB = 2_048


def limits_page() -> str:
    """Every setting by what it is about, with its variable, default and meaning.

    Raises:
        ValueError: a setting is in no group of docs/setting_groups.py.
    """
    if left := ungrouped(set(HandlerSettings.model_fields)):
        raise ValueError(f"docs/setting_groups.py must name once: {', '.join(sorted(left))}")
    return "\n".join(
        [
            _NOTE,
            "# Limits and settings",
            "",
            *paragraph(
                "Each is an environment variable, checked before anything starts: a wrong value or "
                "an unknown `EVENFLOW_…` variable stops the start with one line that names it. For "
                "a limit the last column says what happens when it is reached."
            ),
            *_settings_table("Change these ten first", FIRST),
            *(line for title, names in GROUPS.items() for line in _settings_table(title, names)),
            "",
            *calls_section(),
            *acceptance_section(),
            *_memory_section(Limits()),
        ]
    )


def _settings_table(title: str, names: Iterable[str]) -> Iterable[str]:
    yield from ("", f"## {title}", "", "| variable | default | meaning |", "|---|---|---|")
    yield from (_setting_row(name) for name in names)


def _memory_section(limits: Limits) -> Iterable[str]:
    """What readers that never read cost, with the numbers that a test holds a handler to."""
    with_websockets = _size(memory.memory_bound(limits, websockets=_READERS))
    with_event_streams = _size(memory.memory_bound(limits, event_streams=_READERS))
    yield from (
        "## Memory",
        "",
        *paragraph(
            "A reader that doesn't read costs a handler one frame more than one that does. The "
            "write buffer is the kernel's and no memory of the process; when it is full the "
            "reader's cursor waits, and the text is in the log, where it is anyway."
        ),
        "",
        "What a handler keeps has limits. With all of them reached it needs:",
        "",
        "| limit | at most | of what |",
        "|---|---|---|",
        *(
            f"| {_variable(name)} | {round(size / memory.MEBIBYTE):,} MiB | {_BOUNDED[name]} |"
            for name, size in memory.bounds(limits).items()
        ),
        _sum_row(limits),
        "",
        *paragraph(
            "What is over goes: the conversation idle longest, the oldest ended response, the "
            "longest running one, the reader with the most that it has not taken. Messages and "
            "requests can't go: they are refused before they are kept, with `node_memory`, and so "
            "is `POST /session` then, and a poll whose answer would be too much for the last row. "
            "`memory.held_bytes` on /metrics is what is kept now, `memory.resident_bytes` what the "
            "process has. What is read of a frame isn't in the sum."
        ),
        "",
        *paragraph(
            "A machine, or a control group, that has less than the sum is told so at the start; a "
            "deployment's settings are refused. All of this is of one process: EVENFLOW_PROCESSES "
            "multiplies it. With EVENFLOW_STORE=sqlite another process writes the file: 40 MiB, "
            "and what is being written. With EVENFLOW_STORE=memory the store has messages and "
            "answers a second time, without a limit: it is for tests and trials."
        ),
        "",
        "These are counted as:",
        "",
        "| | at most | |",
        "|---|---|---|",
        *(
            f"| {what} | {_size(size)} | {made_of} |"
            for what, size, made_of in _memory_rows(limits)
        ),
        "",
        *paragraph(
            f"With {_READERS:,} WebSockets that never read a handler stays below {with_websockets} "
            f"and its logs, with as many event streams below {with_event_streams}: "
            "`tests/integration/test_memory_of_stalled_readers.py` holds it to that. The answer to "
            "a long-poll has its whole text in it; a client that doesn't take it is cut off after "
            "the pong timeout."
        ),
        "",
    )


_BOUNDED: Mapping[str, str] = {
    "": "the process itself: interpreter, libraries, AWS' SDK",
    "connections_per_node": "WebSockets, without what they were sent",
    "requests_per_node": "event streams and waiting polls, likewise",
    "bodies_per_node": "what has come of bodies, and waits to be taken",
    "generations_per_node": "what has come of models' answers, and waits to be taken",
    "requests_held_bytes": "messages and requests, with what the model is told of their sessions",
    "conversations_held_bytes": "what models were told before, as UTF-8, and ids of messages",
    "running_held_bytes": "the logs of running responses",
    "responses_held_bytes": "ended responses",
    "unsent_held_bytes": "frames and events that sockets have not taken",
}


def _sum_row(limits: Limits) -> str:
    total = round(memory.limits_bound(limits) / memory.MEBIBYTE)
    return f"| **sum** | **{total:,} MiB** | a task has {_TASK_MIB:,} MiB |"


def _variable(name: str) -> str:
    return f"`EVENFLOW_{name.upper()}`" if name else "(none)"


def _memory_rows(limits: Limits) -> Iterable[tuple[str, int, str]]:
    """What something is, the bytes that it takes at most, and what they are for."""
    websocket, event_stream = memory.websocket_bound(limits), memory.event_stream_bound(limits)
    frame = (
        f"{limits.frame_characters:,} characters, each {memory.CHARACTER_BYTES} bytes in JSON at "
        "most (a letter: one)"
    )
    unsent = f"itself, and the one frame that its socket didn't take: {frame}"
    asking = "more: as many answers to its own frames, then it is closed with 4008"
    sending = "more: what is read of it at once, and what was there of a frame before that"
    yield "the process", memory.PROCESS_BYTES, "interpreter, libraries, AWS' SDK"
    yield "a WebSocket", websocket, unsent
    yield "one that goes on asking", memory.ASKING_BYTES, asking
    yield "one that sends as fast as it can", memory.sending_bound(limits), sending
    yield "an event stream", event_stream, "itself, and one such frame"
    yield "a delta in a log", memory.DELTA_BYTES, "once, however many read it; and its text"
    part = memory.DELTA_BYTES + memory.PART_OBJECT_BYTES
    yield "a part in a log", part, "likewise: reasoning, a piece of a tool call, a source"
    folded = (
        f"more: its text, as bytes, a byte for each delta, and {memory.PIECE_BYTES} for each "
        f"{PIECE_DELTAS} of them; {memory.RUN_BYTES} wherever another kind of part begins"
    )
    yield "an answer that has ended", memory.ENDED_RESPONSE_BYTES, folded
    yield "a message that is answered or waits", memory.GENERATION_BYTES, "and its text"
    yield "a conversation", memory.CONVERSATION_BYTES, "and for each message that it knows:"
    yield "its ids", memory.MESSAGE_BYTES, "of the message and its response"
    yield "its place in the history", memory.EXCHANGE_BYTES, "and its text, as UTF-8"
    emoji = "in a delta with an emoji in it; one or two otherwise"
    yield "a byte of a delta's text", memory.TEXT_FACTOR, emoji


def _size(size: int) -> str:
    if size < memory.KIBIBYTE:
        return f"{size} bytes"
    return (
        f"{size / memory.KIBIBYTE:,g} KiB"
        if size < memory.MEBIBYTE
        else f"{size / memory.MEBIBYTE:,.0f} MiB"
    )


def metrics_page() -> str:
    """Every metric of the catalogue, and those of the canary."""
    return "\n".join(
        [
            _NOTE,
            "# Metrics and alarms",
            "",
            *paragraph(
                "`GET /metrics` gives them in Prometheus' text format as `evenflow_<name with "
                "underscores>`. A ratio is given as its percent of the last whole minute and as "
                "the two counters behind it (`…_part_total`, `…_whole_total`). "
                "[grafana/evenflow.json](grafana/evenflow.json) is a dashboard of them all, for "
                "Grafana to import. Those with a *p* are on the page alone, not in CloudWatch."
            ),
            "",
            *_metric_rows(CATALOGUE),
            "",
            *paragraph(
                "The canary asks through the front door each minute ([in AWS](aws.md)). What it "
                "measures is in CloudWatch alone:"
            ),
            "",
            *_metric_rows(CANARY_METRICS),
            "",
            "## Promises",
            "",
            *paragraph(
                "How fast a promise is being broken wakes somebody, over a long window, which says "
                "that it matters, and a short one, which says that it goes on."
            ),
            "",
            "| promise | of a month | alarm |",
            "|---|---|---|",
            *(
                f"| {promise.name}: `{promise.metric.name}` | at most {promise.allowed:g} % | "
                f"{_burn_alarm(promise)} |"
                for promise in PROMISES
            ),
            "",
        ]
    )


def _metric_rows(metrics: Iterable[Metric]) -> Iterable[str]:
    yield "| metric | kind | unit | what it is | target | alarm |"
    yield "|---|---|---|---|---|---|"
    for m in metrics:
        alarm = m.alarm.text if m.alarm else ""
        yield (
            f"| `{m.name}`{' *p*' if m.prometheus_only else ''} | {m.kind} | {m.unit} | "
            f"{_cell(m.meaning)} | {m.target or ''} | {alarm} |"
        )


def _burn_alarm(promise: Promise) -> str:
    return "; or ".join(
        f"> {rate.times * promise.allowed:g} % of {rate.long_minutes // 60} h "
        f"({promise.least * rate.long_minutes // 60:,} cases or more) and of "
        f"{rate.short_minutes} min"
        for rate in BURN_RATES
    )


def states_page() -> str:
    """The transition tables that the code runs, drawn."""
    parts = [
        _NOTE,
        "# States",
        "",
        "These diagrams are drawn from the transition tables that the code runs.",
        "",
        *_diagram("A response", RESPONSE_TRANSITIONS),
        *_diagram("A connection", CONNECTION_TRANSITIONS),
        *_diagram("A reader of a response", FLOW_TRANSITIONS),
    ]
    return "\n".join(parts)


def openapi_page() -> str:
    """The HTTP calls, of a server with the default limits."""
    return _document(openapi_document(Limits()))


def asyncapi_page() -> str:
    """The WebSockets, likewise."""
    return _document(asyncapi_document(Limits()))


def _document(document: Mapping[str, object]) -> str:
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def _setting_row(name: str) -> str:
    field = HandlerSettings.model_fields[name]
    if field.default_factory is not None:
        default = "made at start"
    elif isinstance(field.default, Path):
        path = field.default
        default = f"`{path.relative_to(_FOLDER.parent) if path.is_absolute() else path}`"
    else:
        default = "" if field.default in (None, (), {}, "") else f"`{field.default}`"
    return f"| `EVENFLOW_{name.upper()}` | {default} | {_cell(field.description or '')} |"


def _diagram(title: str, table: Mapping[tuple[State, Event], State]) -> Iterable[str]:
    first = next(iter(table))[0]
    yield from (f"## {title}", "", "```mermaid", "stateDiagram-v2", f"    [*] --> {first}")
    yield from (f"    {state} --> {to}: {event}" for (state, event), to in table.items())
    leaving = {state for state, _ in table}
    yield from (
        f"    {state} --> [*]" for state in dict.fromkeys(table.values()) if state not in leaving
    )
    yield from ("```", "")


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


PAGES: Mapping[str, Callable[[], str]] = {
    "limits.md": limits_page,
    "reference/api.md": lambda: api_page(_NOTE),
    "reference/errors.md": lambda: errors_page(_NOTE),
    "metrics.md": metrics_page,
    "grafana/evenflow.json": grafana_dashboard,
    "states.md": states_page,
    "openapi.json": openapi_page,
    "asyncapi.json": asyncapi_page,
    "architecture.svg": architecture_svg,
    "costs.md": lambda: costs_page(_NOTE),
    "log-lines.md": lambda: log_lines_page(_NOTE),
    "licences.md": lambda: licences_page(_NOTE),
    "doctor.md": lambda: doctor_page(_NOTE),
}


def main(arguments: list[str]) -> int:
    """Write the pages, or with `--check` say which are out of date (exit status 1).

    Costs that README.md names are looked up in either case.

    Raises:
        LicenceError: a package's licence is not welcome.
    """
    stale = []
    for name, page in PAGES.items():
        path, text = _FOLDER / name, page()
        if path.exists() and path.read_text("utf-8") == text:
            continue
        stale.append(name)
        if "--check" not in arguments:
            path.write_text(text, "utf-8")
    if "--check" in arguments and stale:
        print(
            f"out of date: docs/{', docs/'.join(stale)}; `make docs` writes them", file=sys.stderr
        )
        return 1
    wrong = stale_figures((_FOLDER.parent / "README.md").read_text("utf-8"), PAGES["costs.md"]())
    if wrong:
        print(f"README.md: {', '.join(wrong)} dollars stand not in docs/costs.md", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
