"""Writes docs/doctor.md: the use of `evenflow doctor`, and its table of faults."""

from __future__ import annotations

from collections.abc import Iterable

from docs.markdown import paragraph
from evenflow.doctor.hop_faults import HOP_FAULTS, HopFault

_CHECKS = (
    ("address", "opens a session: redirects, portals, TLS, `Host`, the scheme, keep-alive"),
    ("WebSocket, server-sent events, long poll", "one answer, read at the same time"),
    ("/v1, streamed and whole", "the same question by OpenAI's API"),
    ("cookies", "`Set-Cookie` comes back, `Cookie` arrives, four calls reach one node"),
    ("Last-Event-ID, Authorization", "arrive"),
    ("caching", "no hop returns a cached refusal"),
    ("request size", "4.2 MB arrive, for an unknown model: nothing runs"),
    ("idle WebSocket", "stays open for `--idle` seconds without a frame, and answers a ping"),
    ("idle event stream, idle poll", "the same for a silent answer (demo model only)"),
    (
        "CORS",
        "with `--origin`: preflight, answer and handshake, as a browser checks them",
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
                "This reads answers over each transport, for about a minute. It shows which hop "
                "buffers, cuts, compresses, strips or times out, and the setting that helps. In a "
                "checkout it is `.venv/bin/python -m evenflow doctor`. It works with any Evenflow "
                "server and model, and costs three or four short answers. A tenant's key comes "
                "from EVENFLOW_TENANT_KEY. The exit status is 0 if nothing is wrong, 1 if "
                "something is, 2 if no check could be made."
            ),
            "",
            "- `--direct http://10.0.0.7:8080`: the server without the hops, to compare with.",
            "- `--idle 65`: seconds of silence. 65 find limits of 30 and 60 s.",
            "- `--origin https://app.example.com`: a page that should be able to call.",
            "- `--question`, `--tenant`, and `--json` for programs.",
            "",
            *paragraph(
                "`make smoke` uses the same code, and also checks that a deployment is complete: "
                "every protocol, cancelling, the page. The doctor checks less and explains more."
            ),
            "",
            "| check | what it checks |",
            "|---|---|",
            *(f"| {check} | {sees} |" for check, sees in _CHECKS),
            "",
            *paragraph(
                "**A model's own silence doesn't count as a fault.** While the answer is read, "
                "polls show the server's progress. A piece that comes more than a second later was "
                "held back. The server sends a reader one frame in an interval, so several at once "
                "were collected by a hop. A WebSocket shows how even the answer can be."
            ),
            "",
            *paragraph(
                "**Which hop it is** shows in the headers `Server`, `Via`, `X-Cache`, `CF-Ray` and "
                "`Alt-Svc`, in the report's first line. If they name a known hop, only its "
                "settings are printed."
            ),
            "",
            "## Faults and settings",
            "",
            *paragraph("A fault with ! is harmless, and keeps the status 0."),
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
