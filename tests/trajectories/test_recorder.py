"""Recording: order, numbers, and a cost that never grows."""

from __future__ import annotations

import gc
import tracemalloc
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rolecraft.errors import UsageError
from rolecraft.messages import Message
from rolecraft.trajectories import Event, Journal, Recorder, Trajectory


def test_turns_are_numbered_in_the_order_of_their_commits() -> None:
    """Causes and messages point to handles while a turn is open, to numbers afterwards."""
    run = Trajectory()
    recorder = Recorder(run)
    question = Message("2 + 2?", sent_from="user")
    recorder.add_message(question)

    recorder.time = 1
    slow, fast = recorder.turn(), recorder.turn()
    answer_of_fast = Message("4", sent_from="fast")
    handle = fast.add(Event("action", role="fast", cause=question.event))
    fast.add_message(answer_of_fast, handle)

    answer_of_slow = Message("5", sent_from="slow")
    first = slow.add(Event("action", role="slow", cause=question.event))
    call = slow.add(Event("model_call", role="slow", cause=first))
    slow.add(Event("thought", role="slow", cause=call))
    slow.add_message(answer_of_slow, call)
    assert (first, call, answer_of_slow.event) == (-1, -2, -4)
    recorder.time = 2  # the time of a turn is when it began

    slow.commit()
    fast.commit()

    assert [(e.seq, e.kind, e.role, e.cause, e.time) for e in run.events] == [
        (0, "message", "user", None, 0),
        (1, "action", "slow", 0, 1),
        (2, "model_call", "slow", 1, 1),
        (3, "thought", "slow", 2, 1),
        (4, "message", "slow", 2, 1),
        (5, "action", "fast", 0, 1),
        (6, "message", "fast", 5, 1),
    ]
    assert (question.event, answer_of_slow.event, answer_of_fast.event) == (0, 4, 6)
    assert recorder.next == 7


def test_a_turn_can_be_used_again_after_its_commit() -> None:
    run = Trajectory()
    turn = Recorder(run).turn()
    for text in ("one", "two"):
        message = Message(text)
        handle = turn.add(Event("action"))
        turn.add_message(message, handle)
        turn.commit()
    turn.commit()  # nothing new: nothing happens
    assert [(event.seq, event.cause) for event in run.events] == [
        (0, None),
        (1, 0),
        (2, None),
        (3, 2),
    ]


def test_a_handle_of_another_turn_is_refused() -> None:
    """It would silently point to a stranger's event."""
    recorder = Recorder()
    one, two = recorder.turn(), recorder.turn()
    one.add(Event("action"))
    handle = one.add(Event("model_call"))
    with pytest.raises(UsageError, match="handle of another turn"):
        two.add(Event("message", role="B", cause=handle))
    with pytest.raises(UsageError, match="handle of another turn"):
        recorder.add(Event("message", role="B", cause=handle))
    two.add(Event("message"))
    two.commit()
    assert recorder.next == 1, "what was refused cost no number"


def record(sink: Journal | None, count: int) -> None:
    recorder = Recorder(*([sink] if sink is not None else []), first=sink.next_seq if sink else 0)
    for number in range(count):
        message = Message("The weather is fine today.", sent_from="A", role="A", id=f"m{number}")
        recorder.add_message(message, number - 1 if number else None)


def test_an_event_costs_the_same_whether_1000_or_10000_came_before(
    tmp_path: Path, growth: Any
) -> None:
    def records(count: int) -> Callable[[], object]:
        path = tmp_path / f"{uuid.uuid4()}.jsonl"

        def work() -> None:
            with Journal(path) as journal:
                record(journal, count)

        return work

    growth(records, 1_000, 10_000, at_most=10 * 2)


def test_recording_to_a_journal_keeps_nothing_in_memory(tmp_path: Path) -> None:
    with Journal(tmp_path / "run.jsonl") as journal:
        record(journal, 500)  # caches fill
        gc.collect()
        tracemalloc.start()
        try:
            before, _ = tracemalloc.get_traced_memory()
            record(journal, 20_000)
            gc.collect()
            after, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert journal.path.stat().st_size > 2_000_000
    assert after - before < 20_000, "bytes kept"
    assert peak - before < 200_000, "bytes in flight"
