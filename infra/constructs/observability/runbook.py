"""What an alarm's description says of its page in docs/runbooks/."""

from __future__ import annotations

import re

from evenflow.infra.assets.package_data import runbooks

_FIRST_STEP = re.compile(r"^## Look first\n\n(.+?)\n\n", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\[([^\]]+)\]\([^)]+\)")


class NoFirstStepError(Exception):
    """A runbook lacks the section `Look first`."""


def what_to_do(name: str, base_url: str | None) -> str:
    """A link to the page, or its first step where nobody could open a link.

    Args:
        name: the page's, without `.md`.
        base_url: the pages' folder, with a slash at its end.

    Raises:
        NoFirstStepError: the page has none.
    """
    if base_url is not None:
        return f"What to do: {base_url}{name}.md"
    found = _FIRST_STEP.search((runbooks() / f"{name}.md").read_text("utf-8"))
    if found is None:
        raise NoFirstStepError(f"docs/runbooks/{name}.md has no section `Look first`")
    step = _LINK.sub(r"\1", " ".join(found[1].split())).rstrip(".:")
    end = "" if step.endswith("?") else "."
    return f"Look first: {step}{end} Then: docs/runbooks/{name}.md"
