"""A scrape of the server's /metrics page (Prometheus text)."""

import re
from collections import defaultdict

import aiohttp

SAMPLE = re.compile(
    r"^(?P<name>[a-zA-Z_:][\w:]*)(?:\{(?P<labels>.*)\})? (?P<value>\S+)", re.MULTILINE
)
TIMEOUT = aiohttp.ClientTimeout(total=15)
PROCESS = re.compile(r'process="(\d+)"')
UPPER_BOUND = re.compile(r'le="([^"]+)"')


class MetricsPage:
    """The samples of one scrape, summed over labels other than a histogram's `le`."""

    def __init__(self, text: str) -> None:
        self._values: dict[str, float] = defaultdict(float)
        self._buckets: dict[str, dict[float, float]] = defaultdict(lambda: defaultdict(float))
        self._by_process: dict[str, dict[int, float]] = defaultdict(dict)
        for sample in SAMPLE.finditer(text):
            value = float(sample["value"])
            process = PROCESS.search(sample["labels"] or "")
            if process:
                self._by_process[sample["name"]][int(process[1])] = value
            bound = UPPER_BOUND.search(sample["labels"] or "")
            if bound:
                self._buckets[sample["name"]][float(bound[1])] += value
            else:
                self._values[sample["name"]] += value

    def value(self, name: str) -> float:
        """A counter or a gauge; KeyError when the page does not have it."""
        if name not in self._values:
            raise KeyError(name)
        return self._values[name]

    def by_process(self, name: str) -> list[float]:
        """A gauge or counter of each of several processes, by their numbers."""
        return [value for _, value in sorted(self._by_process[name].items())]

    def buckets(self, name: str) -> dict[float, float]:
        """Cumulative counts by upper bound."""
        return dict(self._buckets[f"{name}_bucket"])


async def scrape(http_url: str) -> MetricsPage:
    async with (
        aiohttp.ClientSession(timeout=TIMEOUT) as http,
        http.get(f"{http_url}/metrics") as answer,
    ):
        answer.raise_for_status()
        return MetricsPage(await answer.text())
