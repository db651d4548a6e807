"""Writes the reference of errors: one heading for each code, with its statuses in the code."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path

from docs.error_texts import ERROR_TEXTS, ErrorText
from docs.markdown import item, paragraph
from evenflow.stream_core.base import errors
from evenflow.stream_core.base.errors import EvenflowError
from evenflow.stream_core.http import error_codes

_ROOT = Path(__file__).resolve().parent.parent
_PRODUCT = ("fargate_handler", "stream_core", "stream_aws", "stream_sqlite", "functions")
_KINDS = {
    name: kind
    for name, kind in vars(errors).items()
    if isinstance(kind, type) and issubclass(kind, EvenflowError)
}
_STATUSES = {name: kind.status for name, kind in _KINDS.items()}
_TYPES = {kind.status: kind.type for kind in _KINDS.values()}
# No error class of the core gives these their status: they are the firewall's answer, an event on a
# WebSocket, and errors with a class of their own.
_MADE_ELSEWHERE: Mapping[str, tuple[int, ...]] = {
    "address_rate": (429,),
    "realtime_not_served": (),
    "filter_failed": (500,),
    "timeout": (504,),
}


def errors_page(note: str) -> str:
    """The page."""
    statuses = error_statuses()
    return "\n".join(
        [
            note,
            "# Errors",
            "",
            *paragraph(
                'Every transport sends one shape: `{"error": {…}}` with `type`, `code`, '
                "`message` and, where they apply, `param`, `retry_after_ms`, `status` (the model "
                "server's), `expected`, `response_id` and `limit`. HTTP answers that can be tried "
                "again have `Retry-After`. Over a WebSocket the object is in an `error`, "
                "`throttle`, `system.busy` or `chat.response.error` frame."
            ),
            "",
            *paragraph(
                "Branch on `code`, which is stable. A code of the model's server that is well "
                "known, such as `rate_limit_exceeded`, is passed on as it is."
            ),
            "",
            "| status | codes |",
            "|---|---|",
            *_index(statuses),
            *(
                line
                for title, texts in ERROR_TEXTS.items()
                for line in _section(title, texts, statuses)
            ),
        ]
    )


def _index(statuses: Mapping[str, set[int]]) -> Iterable[str]:
    by_status: dict[int, list[str]] = defaultdict(list)
    for code in (code for texts in ERROR_TEXTS.values() for code in texts):
        for status in statuses[code]:
            by_status[status].append(f"[`{code}`](#{code})")
    for status, codes in sorted(by_status.items()):
        yield f"| {status} | {', '.join(sorted(codes))} |"


def _section(
    title: str, texts: Mapping[str, ErrorText], statuses: Mapping[str, set[int]]
) -> Iterable[str]:
    yield from ("", f"## {title}")
    for code, text in texts.items():
        found = ", ".join(_with_type(status) for status in sorted(statuses[code]))
        yield from ("", f"### {code}", "")
        yield from item(f"**Cause.** {text.cause}")
        yield from item(f"**Kept.** {text.kept}")
        yield from item(f"**Do.** {text.remedy}")
        if found:
            yield f"- **Status.** {found}"
    if title == list(ERROR_TEXTS)[-1]:
        yield ""


def _with_type(status: int) -> str:
    kind = _TYPES.get(status)
    return f"{status} `{kind}`" if kind else str(status)


@cache
def error_statuses() -> Mapping[str, set[int]]:
    """Each code of the product, with its HTTP statuses."""
    statuses: dict[str, set[int]] = defaultdict(set)
    for code, some in (*_raised(), *_documented(), *_MADE_ELSEWHERE.items()):
        statuses[code].update(some)
    return statuses


def _raised() -> Iterable[tuple[str, tuple[int, ...]]]:
    """The literal codes of all calls, with the status of the class that is called."""
    for path in (path for folder in _PRODUCT for path in (_ROOT / folder).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Call):
                named = {word.arg: word.value for word in node.keywords}
                code, called = named.get("code"), getattr(node.func, "id", None)
                if isinstance(code, ast.Constant):
                    # A status of its own is the model server's.
                    status = _STATUSES.get(str(called)) if "status" not in named else None
                    yield str(code.value), () if status is None else (status,)


def _documented() -> Iterable[tuple[str, tuple[int, ...]]]:
    """The codes that the OpenAPI document lists."""
    for group in vars(error_codes).values():
        if isinstance(group, dict):
            for status, codes in group.items():
                if isinstance(status, int):
                    yield from ((code, (status,)) for code in codes)
