"""What the page may do, in the words of `Content-Security-Policy`: once for every place that serves it."""

from __future__ import annotations


def page_policy(*connections: str) -> str:
    """The header's value: code, styles and connections of the page's own origin only, and nothing inline.

    Args:
        connections: what else it may connect to, such as the WebSocket's address where that is another origin.
    """
    allowed = " ".join(("'self'", *connections))
    return (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
        f"connect-src {allowed}; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
