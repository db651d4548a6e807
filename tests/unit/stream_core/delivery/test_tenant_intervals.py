from __future__ import annotations

import gc

from evenflow.stream_core.delivery.tenant_intervals import TenantIntervals
from tests.unit.simulated_core import SimulatedCore, Streams

USUAL, LONGEST = 5, 20
GREEDY, QUIET = 200, 10
READERS = {"greedy": GREEDY, "quiet": QUIET}
OVER = frozenset({"greedy"})


def cost(load: float) -> float:
    """What one delivery must take, that all are this load at the usual interval."""
    return load * USUAL / 100 / (GREEDY + QUIET)


def begun(core: SimulatedCore, load: float) -> tuple[Streams, Streams]:
    """The streams of a greedy tenant and of a quiet one, which are divided."""
    greedy = Streams(core, GREEDY, cost(load), tenant="greedy")
    quiet = Streams(core, QUIET, cost(load), tenant="quiet")
    core.clock.intervals.divide(READERS, OVER)
    return greedy, quiet


# -- on a core that has too much to do -------------------------------------------------------------


def test_who_is_over_its_share_is_stretched_and_the_quiet_one_keeps_its_interval() -> None:
    core = SimulatedCore()
    greedy, quiet = begun(core, load=3.0)
    core.run(4.0)
    settled = core.clock.position
    core.run(2.0)
    assert max(quiet.gaps_since(0)) == USUAL
    assert quiet.gaps_since(settled) == {USUAL}
    assert min(greedy.gaps_since(settled)) >= 15
    assert max(greedy.gaps_since(settled)) <= LONGEST
    assert core.clock.intervals.stretched == 1
    assert core.clock.lateness < 0.05


def test_where_that_is_not_enough_all_are_stretched_and_the_quiet_one_is_back_first() -> None:
    core = SimulatedCore()
    greedy, quiet = begun(core, load=3.0)
    core.other = 0.4
    core.run(6.0)
    stretched = core.clock.position
    core.run(2.0)
    assert greedy.gaps_since(stretched) == {LONGEST}
    assert min(quiet.gaps_since(stretched)) > USUAL
    core.other = 0.0
    core.run(4.0)
    back = core.clock.position
    core.run(2.0)
    assert quiet.gaps_since(back) == {USUAL}
    assert min(greedy.gaps_since(back)) > 2 * USUAL
    for reader in greedy.readers[: GREEDY * 3 // 4]:
        reader.ended = True
    core.run(4.0)
    back = core.clock.position
    core.run(2.0)
    assert greedy.gaps_since(back) == quiet.gaps_since(back) == {USUAL}


def test_while_the_work_fits_nobody_is_stretched_however_much_one_has() -> None:
    core = SimulatedCore()
    greedy, quiet = begun(core, load=0.7)
    core.run(5.0)
    assert greedy.gaps_since(200) == quiet.gaps_since(200) == {USUAL}
    assert core.clock.intervals.stretched == 0


def test_a_greedy_tenant_that_is_found_out_late_gives_the_others_their_interval_back() -> None:
    core = SimulatedCore()
    quiet = Streams(core, QUIET, cost(2.0), tenant="quiet")
    greedy = Streams(core, GREEDY, cost(2.0), tenant="greedy")
    core.run(4.0)
    both = core.clock.position
    core.run(2.0)
    assert min(quiet.gaps_since(both)) > 2 * USUAL
    core.clock.intervals.divide(READERS, OVER)
    core.run(1.0)
    divided = core.clock.position
    core.run(4.0)
    assert quiet.gaps_since(divided) == {USUAL}
    assert max(greedy.gaps_since(divided)) <= LONGEST
    core.clock.intervals.divide(READERS, frozenset())
    core.run(1.0)
    one = core.clock.position
    core.run(2.0)
    assert quiet.gaps_since(one) == greedy.gaps_since(one)


# -- whose interval --------------------------------------------------------------------------------


def stretched(windows: int = 1) -> TenantIntervals:
    intervals = TenantIntervals(0, USUAL, LONGEST)
    intervals.divide(READERS, OVER)
    for _ in range(1 + windows):
        intervals.adapt(1.0, 0.5)
    return intervals


def test_streams_that_begin_later_have_their_tenant_s_interval() -> None:
    intervals = stretched()
    greedy, quiet = map(intervals.interval_of, READERS)
    assert (greedy.slots, quiet.slots) == (6, USUAL)
    assert intervals.interval_of("greedy") is greedy


def test_who_is_over_its_share_no_longer_is_told() -> None:
    intervals = stretched()
    kept = {name: intervals.interval_of(name) for name in READERS}
    intervals.divide({"greedy": 10, "quiet": 20}, frozenset({"quiet"}))
    assert [kept[name].slots for name in READERS] == [intervals.slots, intervals.longest]
    assert intervals.slots == USUAL < intervals.longest


def test_a_tenant_without_streams_is_forgotten() -> None:
    intervals = TenantIntervals(0, USUAL, LONGEST)
    kept = [intervals.interval_of(name) for name in READERS]
    assert intervals.has_several_tenants
    kept.pop()
    gc.collect()
    assert not intervals.has_several_tenants


def test_who_is_left_alone_is_one_of_all() -> None:
    intervals = stretched(windows=20)
    greedy = intervals.interval_of("greedy")
    assert greedy.slots == LONGEST
    assert intervals.has_several_tenants, "or else nobody would find out"
    intervals.divide({"greedy": GREEDY}, frozenset())
    assert greedy.slots == intervals.slots == intervals.longest == LONGEST, "no more work at once"
    assert intervals.stretched == 0


def test_while_there_is_nobody_to_deliver_to_all_stays() -> None:
    intervals = stretched(windows=20)
    intervals.divide({}, frozenset())
    assert (intervals.over, intervals.longest) == (OVER, LONGEST)
    alone = TenantIntervals(0, USUAL, LONGEST)
    for _ in range(20):
        alone.adapt(1.0, 0.5)
    alone.divide({}, frozenset())
    assert alone.slots == LONGEST
