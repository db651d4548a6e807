"""Writes docs/doctor.md: how to use `evenflow doctor`, and its table of faults."""

from __future__ import annotations

from collections.abc import Iterable

from docs.markdown import paragraph
from evenflow.doctor.hop_faults import HOP_FAULTS, HopFault

_CHECKS = (
    ("address", "opens a session: redirects, portals, TLS, `Host`, the scheme, keep-alive"),
    ("WebSocket, server-sent events, long poll", "read one answer at the same time"),
    ("/v1, streamed and whole", "the same question by OpenAI's API"),
    ("cookies", "`Set-Cookie` comes back, `Cookie` arrives, four calls reach one task"),
    ("Last-Event-ID, Authorization", "arrive"),
    ("caching", "a refusal isn't given to the next caller"),
    ("request size", "4.2 MB arrive, for a model that doesn't exist: nothing runs"),
    ("idle WebSocket", "is open after `--idle` seconds without a frame, and answers a ping"),
    ("idle event stream, idle poll", "the same for an answer that is silent (demo model only)"),
    (
        "CORS",
        "with `--origin`: preflight, answer and handshake, as the browser of a page sees them",
    ),
    ("heads of streams", "`Content-Encoding`, `Content-Length` and the version of HTTP"),
)


def doctor_page(note: str) -> str:
    """The page."""
    return "\n".join(
        [
            note,
            "# When streams stutter",
            "",
            "```sh",
            "evenflow doctor https://chat.example.com",
            "```",
            "",
            *paragraph(
                "asks a server through its front door over each transport, for about a minute. It "
                "says which hop holds back, cuts, compresses, strips or times out, and the setting "
                "that helps. In a checkout it is `.venv/bin/python -m evenflow doctor`. It works "
                "against any Evenflow server, with any model, and costs three or four short "
                "answers. A tenant's key comes from EVENFLOW_TENANT_KEY. The exit "
                "status is 0 where nothing is wrong, 1 where something is, 2 where it can't be "
                "asked."
            ),
            "",
            "- `--direct http://10.0.0.7:8080`: without the hops. What differs is theirs.",
            "- `--idle 65`: how long connections are kept silent. 65 s find limits of 30 and 60 s.",
            "- `--origin https://app.example.com`: a page that shall be able to call.",
            "- `--question`, `--tenant`, and `--json` for programs.",
            "",
            *paragraph(
                "`make smoke` asks the same by the same code, and whether all of a deployment is "
                "there: every protocol, cancelling, the page. The doctor asks less and explains "
                "more."
            ),
            "",
            "| check | what it sees |",
            "|---|---|",
            *(f"| {check} | {sees} |" for check, sees in _CHECKS),
            "",
            *paragraph(
                "**A model's own silence is not blamed on a hop.** While the answer is read, polls "
                "ask again and again what the server has of it. A piece that comes more than a "
                "second after that was held back. The server gives a reader one frame in an "
                "interval, so several at once were collected on the way; a WebSocket beside them "
                "says how even this answer can be."
            ),
            "",
            *paragraph(
                "**Which hop it is** say `Server`, `Via`, `X-Cache`, `CF-Ray` and `Alt-Svc` of the "
                "answers, in the report's first line. Where they name a known one, only its "
                "settings are printed."
            ),
            "",
            "## Faults and settings",
            "",
            *paragraph("A ! is harmless by itself, and leaves the status at 0."),
            *(line for fault in HOP_FAULTS for line in _section(fault)),
            "",
        ]
    )


def _section(fault: HopFault) -> Iterable[str]:
    mark = "!" if fault.is_harmless else "✗"
    yield from ("", f"### {fault.name}", "")
    yield from paragraph(f"{mark} {fault.what[0].upper()}{fault.what[1:]}. {fault.effect}")
    yield from ("", "| where | setting |", "|---|---|")
    for hop, setting in fault.settings.items():
        yield f"| {hop} | {setting} |"
