"""The stretches of load, and the figures of each."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from math import inf, isfinite
from random import Random

import numpy as np

from bench.fairness.judge import Service, jain_of_windows, largest_gap
from bench.fairness.load import Answered, Load, Order, alike, recorded, recorded_answers
from bench.fairness.system import Asking, Stretch, System
from bench.fairness.tenants import EQUAL, GREEDY, LONG, QUIET, WEIGHTS

QUIET_RATE = 1.0  # requests a second
TIMES = 100  # as many asks the greedy one
SETTLE_SECONDS = 10.0  # until places are shared out, and how long answers are is known
WAITING = 48  # requests that a tenant with a backlog has there at once
SHORT_PROMPT = 16
SHORT_ANSWER = 100  # longer ones of the trace are cut
LONG_ANSWER = 400
WEIGHTED_ANSWER = 120
# A token of a prompt, and of an answer, as Evenflow counts a tenant's service.
INPUT, OUTPUT = 1.0, 2.0


@dataclass(frozen=True)
class Plan:
    """Seconds of each stretch: a quiet tenant with Evenflow's own order and with others, and
    tenants that always wait.
    """

    own: float = 60.0
    others: float = 30.0
    waiting: float = 28.0


@dataclass(frozen=True)
class Greedy:
    """What the greedy tenant asks, when those of the trace came."""

    name: str
    what: str
    shape: Callable[[Iterable[Order]], Iterator[Order]]


def _chats(orders: Iterable[Order]) -> Iterator[Order]:
    drawn = Random(1)
    for order in orders:
        prompt, answer = (drawn.expovariate(1 / mean) for mean in (CHAT_PROMPT, CHAT_ANSWER))
        yield replace(order, prompt=max(16, round(prompt)), answer=max(1, round(answer)))


CODE = Greedy("code", "as the quiet one: prompts and answers of the trace", iter)
# The means of ShareGPT, in the paper on vLLM (Kwon et al., 2023).
CHAT_PROMPT, CHAT_ANSWER = 161, 338
CHAT = Greedy(
    "chat", f"prompts of {CHAT_PROMPT} tokens and answers of {CHAT_ANSWER} in the mean", _chats
)
GREEDIES = (CODE, CHAT)


def _scheduled(orders: Callable[[float], Iterable[Order]]) -> Asking:
    """Asks what there is for so many seconds."""

    async def ask(load: Load, begin: float, end: float) -> None:
        await load.follow(orders(end - begin), begin)
        await load.until(end)

    return ask


def _backlogged(orders: Iterator[Order]) -> Asking:
    async def ask(load: Load, _begin: float, end: float) -> None:
        await load.keep_waiting(orders, WAITING, end)

    return ask


async def quiet(
    system: System, seconds: float, beside: Greedy | None = None, preferred: bool = False
) -> dict[str, object]:
    """The first tokens of a quiet tenant, alone or beside one that asks TIMES as often; its
    prompts may be `preferred` by the engine itself.
    """
    own = partial(recorded, QUIET, QUIET_RATE)
    asking = [_scheduled(lambda most: (replace(it, preferred=preferred) for it in own(most)))]
    if beside is not None:
        greedy = partial(recorded, GREEDY, TIMES * QUIET_RATE)
        asking.append(_scheduled(lambda most: beside.shape(greedy(most))))
    found = await system.stretch(seconds, *asking)
    return {
        **_first_tokens(found),
        "greedy_asked": len(found.of(GREEDY)),
        "greedy_refused": sum(it.refused for it in found.of(GREEDY)),
        **_common(found),
    }


async def equal(system: System, plan: Plan) -> dict[str, object]:
    """Equal tenants that always wait: three with the answers of the trace, one with long ones."""
    asking = (
        _backlogged(alike(name, SHORT_PROMPT, LONG_ANSWER))
        if name == LONG
        else _backlogged(recorded_answers(name, SHORT_PROMPT, SHORT_ANSWER))
        for name in EQUAL
    )
    return _shares(await system.stretch(plan.waiting, *asking), dict.fromkeys(EQUAL, 1.0))


async def weighted(system: System, plan: Plan) -> dict[str, object]:
    """Tenants of weights 1, 2 and 4 that always wait, and ask alike."""
    asking = (_backlogged(alike(name, SHORT_PROMPT, WEIGHTED_ANSWER)) for name in WEIGHTS)
    return _shares(await system.stretch(plan.waiting, *asking), WEIGHTS)


def _shares(found: Stretch, weights: Mapping[str, float]) -> dict[str, object]:
    services = {name: service(found.of(name)) for name in weights}
    outputs = {name: service(found.of(name), input_weight=0.0) for name in weights}
    begin = found.begin + SETTLE_SECONDS
    indices = jain_of_windows(services, begin, found.end, weights)
    answers = [it.order for name in weights for it in found.of(name)]
    per_second = found.end - begin
    return {
        "jain_lowest": round(min(indices), 4),
        "jain_mean": round(float(np.mean(indices)), 4),
        "jain_of_answers_lowest": round(
            min(jain_of_windows(outputs, begin, found.end, weights)), 4
        ),
        "gap": round(largest_gap([*_per_weight(services, weights)], begin, found.end)),
        "largest": max(INPUT * it.prompt + OUTPUT * it.answer for it in answers),
        "service_per_second": {
            name: round(it.between(begin, found.end) / per_second) for name, it in services.items()
        },
        **_common(found),
    }


def _per_weight(services: Mapping[str, Service], weights: Mapping[str, float]) -> list[Service]:
    return [Service(it.times, it.amounts / weights[name]) for name, it in services.items()]


def service(
    answers: list[Answered], input_weight: float = INPUT, output_weight: float = OUTPUT
) -> Service:
    """What a tenant was given: a prompt with its answer's first token, and each token."""
    given = [(it.tokens[0], input_weight * it.order.prompt) for it in answers if it.tokens]
    given += [(at, output_weight) for it in answers for at in it.tokens]
    return Service.of(given)


def _first_tokens(found: Stretch) -> dict[str, object]:
    answers = found.of(QUIET)
    waits = [1_000 * it.first_token for it in answers]
    return {
        "first_token_ms": {
            f"p{share}": _finite(float(np.percentile(waits, share, method="higher")))
            for share in (50, 95, 99)
        },
        "asked": len(answers),
        "answered": sum(isfinite(wait) for wait in waits),
        "refused": sum(it.refused for it in answers),
        "stages_ms": _stages(found, answers),
    }


def _stages(found: Stretch, answers: list[Answered]) -> dict[str, dict[str, float]]:
    """Where the time to the first token went, of those that had one: the median, and of the
    slowest tenth the mean.
    """
    rows = [
        (it.first_token, came - it.asked_at, taken - came, sent - taken, it.tokens[0] - sent)
        for it in answers
        if it.tokens
        for came, taken, sent in [found.engine[it.number]]
    ]
    if not rows:
        return {}
    times = 1_000 * np.array(sorted(rows))
    slowest = times[-max(1, len(times) // 10) :].mean(axis=0)
    names = ("all", "place", "engine_queue", "prefill", "delivery")
    return {
        "median": dict(zip(names, np.median(times, axis=0).round(1).tolist(), strict=True)),
        "slowest": dict(zip(names, slowest.round(1).tolist(), strict=True)),
    }


def _common(found: Stretch) -> dict[str, object]:
    return {
        "tokens_per_second": round(found.tokens_per_second, 1),
        "server_cpu_percent": round(found.server.server_percent),
        "load_cpu_percent": round(found.server.client_percent),
        "engine_cpu_percent": round(found.model.server_percent),
        "faults": found.faults,
    }


def _finite(value: float) -> float | None:
    return round(value, 1) if value != inf else None
