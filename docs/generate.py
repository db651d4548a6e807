"""Writes docs/limits.md, docs/metrics.md and docs/states.md from the code. `--check` fails when a page is out of date."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from enum import StrEnum
from pathlib import Path
from typing import TypeVar

from fargate_handler.settings import HandlerSettings
from stream_core.flow_control import FLOW_TRANSITIONS
from stream_core.limits import Limits
from stream_core.metric_catalogue import CATALOGUE
from stream_core.response_state import RESPONSE_TRANSITIONS
from stream_core.session import SESSION_TRANSITIONS

State = TypeVar("State", bound=StrEnum)
Event = TypeVar("Event", bound=StrEnum)

_FOLDER = Path(__file__).parent
_NOTE = "<!-- Written by `make docs` from the code: change it there. -->\n"


def limits_page() -> str:
    """Every setting, limits first, with its variable, default and meaning."""
    settings = [name for name in HandlerSettings.model_fields if name not in Limits.model_fields]
    return "\n".join(
        [
            _NOTE,
            "# Limits and settings",
            "",
            "Each is an environment variable, checked before anything starts: a wrong value or an unknown `EVENFLOW_…` variable",
            "stops the start with one line that names it.",
            "",
            "## Limits",
            "",
            "| variable | default | when reached |",
            "|---|---|---|",
            *(_setting_row(name) for name in Limits.model_fields),
            "",
            "## Settings",
            "",
            "| variable | default | meaning |",
            "|---|---|---|",
            *(_setting_row(name) for name in settings),
            "",
        ]
    )


def metrics_page() -> str:
    """Every metric of the catalogue."""
    rows = (
        f"| `{m.name}` | {m.kind} | {m.unit} | {_cell(m.meaning)} | {m.target or ''} | {m.alarm.text if m.alarm else ''} |"
        for m in CATALOGUE
    )
    return "\n".join(
        [
            _NOTE,
            "# Metrics and alarms",
            "",
            "`GET /metrics` gives them in Prometheus' text format as `evenflow_<name with underscores>`. A ratio is given as its",
            "percent of the last whole minute and as the two counters behind it (`…_part_total`, `…_whole_total`).",
            "",
            "| metric | kind | unit | what it is | target | alarm |",
            "|---|---|---|---|---|---|",
            *rows,
            "",
        ]
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
        *_diagram("A connection", SESSION_TRANSITIONS),
        *_diagram("A reader of a response", FLOW_TRANSITIONS),
    ]
    return "\n".join(parts)


def _setting_row(name: str) -> str:
    field = HandlerSettings.model_fields[name]
    if field.default_factory is not None:
        default = "made at start"
    elif isinstance(field.default, Path):
        default = f"`{field.default.relative_to(_FOLDER.parent)}`"
    else:
        default = "" if field.default is None else f"`{field.default}`"
    return f"| `EVENFLOW_{name.upper()}` | {default} | {_cell(field.description or '')} |"


def _diagram(title: str, table: Mapping[tuple[State, Event], State]) -> Iterable[str]:
    first = next(iter(table))[0]
    yield from (f"## {title}", "", "```mermaid", "stateDiagram-v2", f"    [*] --> {first}")
    yield from (f"    {state} --> {to}: {event}" for (state, event), to in table.items())
    leaving = {state for state, _ in table}
    yield from (f"    {state} --> [*]" for state in dict.fromkeys(table.values()) if state not in leaving)
    yield from ("```", "")


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


PAGES = {"limits.md": limits_page, "metrics.md": metrics_page, "states.md": states_page}


def main(arguments: list[str]) -> int:
    """Write the pages, or with `--check` say which are out of date (exit status 1)."""
    stale = []
    for name, page in PAGES.items():
        path, text = _FOLDER / name, page()
        if path.exists() and path.read_text("utf-8") == text:
            continue
        stale.append(name)
        if "--check" not in arguments:
            path.write_text(text, "utf-8")
    if "--check" in arguments and stale:
        print(f"out of date: docs/{', docs/'.join(stale)}; `make docs` writes them", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
