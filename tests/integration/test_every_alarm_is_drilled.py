"""Every alarm of every environment is raised in a test. One that is new needs a drill, and a line
here.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable

import pytest

from tests.integration import test_alarm_drills as drills
from tests.integration import test_canary_drills as canary
from tests.integration import test_promise_drills as promises
from tests.integration.alarm_evaluation import rule_of
from tests.integration.published_minutes import PREFIX
from tests.integration.synthesized_alarms import ENVIRONMENTS, named, of_observability
from tests.integration.test_aws_alarms import CONDITIONS
from tests.integration.test_published_metrics import WATCHED

_DRILLS: dict[str, Callable[..., object]] = {
    "burn.answers": promises.test_answers_that_fail,
    "burn.evenness": promises.test_deltas_that_come_unevenly,
    "canary.failures": canary.test_a_front_door_where_nobody_answers,
    "canary.first_text_ms": canary.test_first_texts_that_come_late,
    "memory.used_percent": drills.test_a_process_that_takes_nearly_all_memory,
    "messages.refusal_rate": drills.test_a_full_node,
    "model.first_token_ms": drills.test_messages_that_wait_and_answers_that_begin_late,
    "queue.depth": drills.test_a_queue_that_is_nearly_full,
    "queue.exchange_failures": drills.test_a_role_that_may_not_tell_other_tasks,
    "queue.wait_ms": drills.test_messages_that_wait_and_answers_that_begin_late,
    "responses.failure_rate": drills.test_answers_that_fail,
    "rollback-answers": promises.test_answers_that_fail,
    "rollback-evenness": promises.test_deltas_that_come_unevenly,
    "store.retries": drills.test_a_store_that_throttles,
    "upstream.open_breakers": (
        drills.test_a_model_that_is_down_opens_its_breaker_and_messages_are_refused
    ),
    "upstream.throttles": drills.test_a_model_that_throttles,
    "ws.delivery_jitter_ms": promises.test_deltas_that_come_unevenly,
    "ws.reset_rate": drills.test_connections_that_are_reset,
}
"""By what really happens."""

_BY_MEASUREMENTS = {
    "fallback.poll_count_per_response",
    "fallback.poll_latency_ms",
    "generations.silent_rate",
    "http.unauthorized_rate",
    "node.load_percent",
    "store.deltas_lost",
    "store.write_delay_ms",
    "ws.active_connections",
    "ws.backpressure_drops",
    "ws.connection_setup_ms",
    "ws.dead_connections_rate",
    "ws.messages_per_second",
}
"""By what is measured when it happens: test_published_metrics puts these in."""

_OF_OTHERS = {"users-are-hurting"}
"""By other alarms."""


def _is_part_of_drilled(alarm: str) -> bool:
    """Whether it is a window of an alarm on a promise, or the slower copy of one on a drop."""
    whole, _, minutes = alarm.removesuffix("-minutes").rpartition("-")
    return minutes.isdecimal() and whole in _DRILLS.keys() | _BY_MEASUREMENTS


def test_every_alarm_is_raised_in_a_test() -> None:
    alarms = set[str]().union(*(named(environment) for environment in ENVIRONMENTS))
    drilled = _DRILLS.keys() | CONDITIONS.keys() | _BY_MEASUREMENTS | _OF_OTHERS
    assert {alarm for alarm in alarms if not _is_part_of_drilled(alarm)} == drilled


@pytest.mark.parametrize(
    ("alarm", "hurting"),
    [
        ("responses.failure_rate", True),
        ("load_balancer.own_errors", True),
        ("store.retries", False),
        ("rotate_signing_keys.errors", False),
    ],
)
def test_users_are_hurting_where_readers_feel_an_alarm(alarm: str, hurting: bool) -> None:
    rule = rule_of(of_observability(), f"{PREFIX}-users-are-hurting")
    assert rule({f"{PREFIX}-{alarm}"}) is hurting


@pytest.mark.parametrize("alarm", _DRILLS)
def test_its_drill_expects_it(alarm: str) -> None:
    assert f'"{alarm}"' in inspect.getsource(_DRILLS[alarm])


def test_those_by_measurements_are_of_the_catalogue() -> None:
    assert {str(metric.name) for metric in WATCHED} >= _BY_MEASUREMENTS
