"""The real trace: when requests came to a service, and how long they and their answers were."""

import csv
from datetime import datetime
from pathlib import Path

TRACE = Path(__file__).parents[1] / "data" / "azure-llm-inference-2023.csv"
LONGEST_ANSWER = 200  # tokens; the longest of the trace would take minutes


def read_trace(path: Path, seconds: float) -> list[tuple[float, int, int]]:
    """The requests of so many first seconds: when (seconds from the first), tokens of the prompt
    and of the answer, of which LONGEST_ANSWER are enough.
    """
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    # Their clock has seven digits behind the second, Python's six.
    moments = [datetime.fromisoformat(row["TIMESTAMP"][:26]) for row in rows]
    times = [(moment - moments[0]).total_seconds() for moment in moments]
    return [
        (at, int(row["ContextTokens"]), min(int(row["GeneratedTokens"]), LONGEST_ANSWER))
        for at, row in zip(times, rows, strict=True)
        if at < seconds
    ]
