from __future__ import annotations

from evenflow.fargate_handler.tracing.chosen_ids import ChosenIds, answer_span_id, trace_id_of


def test_the_ids_of_one_span_are_chosen_and_those_of_the_next_are_not() -> None:
    ids = ChosenIds()
    ids.choose(7, 8)
    assert (ids.generate_trace_id(), ids.generate_span_id()) == (7, 8)
    assert ids.generate_trace_id() != 7
    assert ids.generate_span_id() != 8


def test_every_task_knows_the_spans_of_all_owners() -> None:
    response_id = f"rsp_{'0f' * 16}"
    assert f"{trace_id_of(response_id):032x}" == "0f" * 16
    known = {answer_span_id(response_id, epoch) for epoch in range(1, 9)}
    assert len(known) == 8
    assert all(0 < span_id < 2**64 for span_id in known)
    assert answer_span_id(response_id, 3) == answer_span_id(response_id, 3)
    assert answer_span_id(f"rsp_{'0e' * 16}", 1) not in known
