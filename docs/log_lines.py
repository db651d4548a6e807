"""The page of the log's lines, from the records that they are made of."""

from __future__ import annotations

from collections.abc import Iterable
from types import NoneType
from typing import get_args, get_type_hints

from docs.markdown import paragraph
from evenflow.stream_core.records.answer_record import AnswerRecord
from evenflow.stream_core.records.connection_records import (
    CloseRecord,
    RejectionRecord,
    ShadowRecord,
    SlowReaderRecord,
)
from evenflow.stream_core.records.event_record import EventRecord, names_of
from evenflow.stream_core.records.reader_record import ReaderRecord

_RECORDS: tuple[type[EventRecord], ...] = (
    AnswerRecord,
    ReaderRecord,
    SlowReaderRecord,
    RejectionRecord,
    ShadowRecord,
    CloseRecord,
)


def log_lines_page(note: str) -> str:
    """Which lines there are, and each of their fields."""
    return "\n".join(
        [
            note,
            "# Lines of the log",
            "",
            *paragraph(
                "The log goes to standard error: text where that is a terminal, otherwise a JSON "
                "object a line; `EVENFLOW_LOG_FORMAT` says `text` or `json`. Each object has "
                "`timestamp`, `level`, and `task`, the id of the process, which `WSID` names; with "
                "EVENFLOW_PROCESSES `process`, too. A traceback is `exc_info`. In AWS the "
                "functions log by Powertools, with the same names and beside them `cold_start`, "
                "`correlation_id` and `xray_trace_id`."
            ),
            "",
            *paragraph(
                "What happens to answers and clients is an `event` with fields of its own, below; "
                "other lines have `logger` and `message`. "
                "A field that is not known is left out. No line has users' text, a key or a token, "
                "or a session's id, which opens its session: `session` is the beginning of its "
                "SHA-256. `printf %s ID | sha256sum | cut -c1-16` finds the lines of one. Only a "
                "dead letter without a queue for it names its session, which a person needs to "
                "send the message again."
            ),
            "",
            *paragraph(
                "Other lines are one a second of a kind "
                "([0048](decisions/0048-a-log-that-stops-nobody.md)). `left_out` in the next one "
                "of a kind says how many were not written, `dropped` how many were lost before it "
                "because nobody read the log. The functions log each of theirs: Lambda bounds how "
                "many run at once."
            ),
            "",
            *paragraph(
                "In CloudWatch: `filter event = 'answer' | stats count(*), pct(first_token_ms, 95) "
                "by model, state`."
            ),
            "",
            *(line for record in _RECORDS for line in _section(record)),
        ]
    )


def _section(record: type[EventRecord]) -> Iterable[str]:
    most = record.MOST_PER_SECOND
    rate = "All are written." if most is None else ""
    if most is not None and most > 1:
        rate = f"At most {most} a second are written."
    hints = get_type_hints(record, include_extras=True)
    meaning = " ".join(f"{record.__doc__} {rate}".split())
    yield from (f"## `{record.EVENT}`", "", *paragraph(meaning), "")
    yield from ("| field | | what it is |", "|---|---|---|")
    yield from (_row(name, hints[name]) for name in names_of(record))
    yield ""


def _row(name: str, hint: object) -> str:
    kind, meaning = get_args(hint)
    (told,) = (each for each in (get_args(kind) or (kind,)) if each is not NoneType)
    return f"| `{name}` | {_KINDS[told]} | {meaning} |"


_KINDS = {str: "text", int: "whole number", float: "number", bool: "true or false"}
