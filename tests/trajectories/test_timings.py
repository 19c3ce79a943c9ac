"""Wall times: beside the journal, never in it."""

from __future__ import annotations

import json

import pytest

from rolecraft.errors import JournalError
from rolecraft.messages import Message
from rolecraft.trajectories import (
    Event,
    Journal,
    Recorder,
    Stopwatch,
    Timing,
    Trajectory,
    load,
    load_timings,
    timings,
    trace_files,
)


class Clock:
    """Says what a test wants it to say."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(timings, "perf_counter", clock)
    return clock


def observed(watch: Stopwatch, *sinks, first: int = 0) -> Recorder:
    recorder = Recorder(*sinks, first=first)
    recorder.observers = (watch,)
    return recorder


def test_an_action_took_from_its_start_to_its_end(clock) -> None:
    watch = Stopwatch()
    recorder = observed(watch)
    clock.now += 1
    start = recorder.add(Event("action", role="Ann"))
    clock.now += 2
    inner = recorder.add(Event("tool_call", role="Ann", cause=start))
    clock.now += 0.5
    recorder.add(Event("tool_result", role="Ann", cause=inner))
    recorder.add(Event("message", role="Ann", data={"ends": True}, cause=start))
    assert watch.timings == {
        0: Timing(1.0),
        1: Timing(3.0),
        2: Timing(3.5, 0.5),
        3: Timing(3.5, 2.5),
    }


def test_a_model_call_took_from_the_last_thing_its_role_did_or_heard(clock) -> None:
    watch = Stopwatch()
    recorder = observed(watch)
    recorder.add(Event("message", role="Ann"))
    clock.now += 10  # Bob works
    message = Message("yours", sent_from="Bob")
    recorder.add_message(message)
    clock.now += 2  # Ann asks her model what to do about it
    call = Event("model_call", role="Ann", cause=message.event)
    recorder.add(call)
    clock.now += 1
    recorder.add(Event("model_call", role="Ann", cause=message.event))
    assert [watch.timings[seq].took for seq in (2, 3)] == [2.0, 1.0]


def test_roles_that_act_at_the_same_time_have_the_times_at_which_things_happened(clock) -> None:
    """Though both are committed later, one after the other."""
    watch = Stopwatch()
    recorder = observed(watch)
    ann, bob = recorder.turn(), recorder.turn()
    first = ann.add(Event("action", role="Ann"))
    second = bob.add(Event("action", role="Bob"))
    clock.now += 1
    bob.add(Event("action_result", role="Bob", cause=second))
    clock.now += 2
    ann.add(Event("action_result", role="Ann", cause=first))
    clock.now += 5
    assert watch.timings == {}, "they have no numbers yet"
    ann.commit()
    bob.commit()
    assert [watch.timings[seq] for seq in range(4)] == [
        Timing(0.0),
        Timing(3.0, 3.0),
        Timing(0.0),
        Timing(1.0, 1.0),
    ]


def test_the_times_are_beside_the_journal_and_come_with_it(clock, tmp_path) -> None:
    path = tmp_path / "run.jsonl"
    with Journal(path) as journal, Stopwatch(path) as watch:
        recorder = observed(watch, journal)
        start = recorder.add(Event("action", role="Ann", data={"action": "A"}))
        clock.now += 1.25
        recorder.add(Event("action_result", role="Ann", cause=start))
    assert "1.25" not in path.read_text()
    began, *lines = (tmp_path / "run.timings.jsonl").read_text().splitlines()
    assert set(json.loads(began)) == {"began"}
    assert lines == ['{"seq":0,"at":0.0}', '{"seq":1,"at":1.25,"took":1.25}']
    run = load(path)
    assert run.timings == watch.timings == load_timings(path)
    assert run.role_table()["Ann"].seconds == 1.25
    assert trace_files(tmp_path) == [path], "it is no trace"


def test_without_times_everything_else_is_there(tmp_path) -> None:
    path = Trajectory("t", {}, [Event("action", role="Ann", seq=0)]).save(tmp_path / "t.jsonl")
    assert load(path).timings == {}
    assert load(path).role_table()["Ann"].seconds is None


def test_a_second_process_goes_on_after_a_line_that_was_cut_off(clock, tmp_path) -> None:
    path = tmp_path / "run.jsonl"
    with Stopwatch(path) as watch:
        observed(watch).add(Event("action"))
    file = tmp_path / "run.timings.jsonl"
    with file.open("a") as half:
        half.write('{"seq":1,"at')
    with Stopwatch(path) as watch:
        observed(watch, first=1).add(Event("stop"))
    assert set(load_timings(path)) == {0, 1}
    assert file.read_text().count("began") == 2


@pytest.mark.parametrize(
    "line", ["{", "[]", '{"seq": "1", "at": 1}', '{"seq": 1}', '{"seq": 1, "at": -1, "took": 1}']
)
def test_a_broken_line_costs_that_line(tmp_path, line) -> None:
    (tmp_path / "run.timings.jsonl").write_text(f'{line}\n{{"seq": 2, "at": 0.5, "new": 1}}\n')
    problems: list[str] = []
    assert load_timings(tmp_path / "run.jsonl", problems=problems) == {2: Timing(0.5)}
    assert len(problems) == 1
    assert "run.timings.jsonl:1" in problems[0]


def test_two_stopwatches_of_one_journal_are_refused(tmp_path) -> None:
    with Stopwatch(tmp_path / "run.jsonl"), pytest.raises(JournalError, match="another process"):
        Stopwatch(tmp_path / "run.jsonl")


def test_the_journal_has_the_same_bytes_with_and_without(tmp_path) -> None:
    def journal(name: str, *, timed: bool) -> bytes:
        path = tmp_path / name
        with Journal(path, {"schema_version": 1, "trajectory": "t"}) as sink:
            watch = Stopwatch(path) if timed else None
            recorder = observed(watch, sink) if watch else Recorder(sink)
            turn = recorder.turn()
            turn.add(Event("action", role="Ann"))
            turn.commit()
            if watch:
                watch.close()
        return path.read_bytes()

    assert journal("a.jsonl", timed=True) == journal("b.jsonl", timed=False)
