"""The recorded requests: when they came to a service, and how long they and their answers were."""

import csv
from datetime import datetime
from math import inf
from pathlib import Path

TRACE = Path(__file__).parent / "data" / "azure-llm-inference-2023.csv"


def read_trace(path: Path, seconds: float, longest: float = inf) -> list[tuple[float, int, int]]:
    """The requests of so many first seconds: when (seconds from the first), tokens of the prompt
    and of the answer, of which `longest` are enough.
    """
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    # Their clock has seven digits behind the second, Python's six.
    moments = [datetime.fromisoformat(row["TIMESTAMP"][:26]) for row in rows]
    times = [(moment - moments[0]).total_seconds() for moment in moments]
    return [
        (at, int(row["ContextTokens"]), int(min(int(row["GeneratedTokens"]), longest)))
        for at, row in zip(times, rows, strict=True)
        if at < seconds
    ]
