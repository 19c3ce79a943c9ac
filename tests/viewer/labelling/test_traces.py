"""Traces as the page shows them: in pieces, with what may be quoted and no label of their file."""

from __future__ import annotations

from pathlib import Path

import pytest

from rolecraft.errors import TraceError
from rolecraft.failure_taxonomy.evidence import quotable
from rolecraft.trajectories import Event, Trajectory
from rolecraft.viewer.labelling import OpenTrace, open_traces
from rolecraft.viewer.labelling.traces import SHOWN


def test_what_is_shown_of_an_event_is_what_can_be_quoted(trace: OpenTrace) -> None:
    rows = trace.rows(0, 100)
    assert [row["text"] for row in rows] == [quotable(event) for event in trace.trajectory.events]


def test_a_long_event_is_shown_in_part_and_given_whole(save_trace) -> None:
    text = "0123456789" * SHOWN
    (trace,) = open_traces([save_trace("long", [Event("message", role="a", content=text)])])
    (row,) = trace.rows(0, 10)
    assert row["text"] == text[:SHOWN]
    assert row["length"] == len(text)
    assert trace.text(0) == text


def test_rows_beyond_the_end_are_none(trace: OpenTrace) -> None:
    assert trace.rows(100, 10) == []
    assert [row["at"] for row in trace.rows(4, 10)] == [4, 5]
    with pytest.raises(IndexError):
        trace.text(-1)


def test_search_finds_words_in_texts_and_speakers_whatever_the_capitals(trace: OpenTrace) -> None:
    assert trace.search("LIST_files") == [1, 3]
    assert trace.search("user") == [0]
    assert trace.search("nowhere") == []


def test_labels_that_a_file_came_with_are_not_shown(data_dir: Path) -> None:
    path = data_dir / "who_and_when" / "Algorithm-Generated" / "1.json"
    (trace,) = open_traces([path])
    labels = trace.trajectory.about["labels"]
    shown = str([trace.about(), trace.index(), trace.rows(0, 1000)])
    assert labels["mistake_reason"] not in shown
    assert "mistake" not in shown


def test_a_trace_that_is_given_twice_is_opened_once(save_trace) -> None:
    path = save_trace("one")
    assert len(open_traces([path, path.parent])) == 1


def test_two_files_with_the_same_events_are_two_traces(save_trace) -> None:
    first, second = save_trace("one"), save_trace("two")
    keys = [trace.key for trace in open_traces([first, second])]
    assert len(set(keys)) == 2


def test_a_file_that_cannot_be_read_does_not_cost_the_others(save_trace, tmp_path: Path) -> None:
    good, bad = save_trace("good"), tmp_path / "bad.json"
    bad.write_text("no trace")
    told: list[TraceError] = []
    opened = open_traces([bad, tmp_path / "missing", good], on_error=told.append)
    assert [trace.name for trace in opened] == [str(good)]
    assert [error.path for error in told] == [str(bad), str(tmp_path / "missing")]
    with pytest.raises(TraceError):
        open_traces([bad])


def test_labels_that_are_kept_among_the_traces_are_no_traces(save_trace) -> None:
    path = save_trace("one")
    kept = path.parent / "labels"
    (kept / "annotators").mkdir(parents=True)
    (kept / "annotators" / "Ann.jsonl").write_text("{}")
    assert len(open_traces([path.parent], leave_out=kept)) == 1


def test_an_odd_header_costs_nothing(tmp_path: Path) -> None:
    """Traces of other tools: any JSON may stand where something else is expected."""
    event = Event("message", role="a", content="x", seq=0)
    for number, roles in enumerate(({"a": 1}, ["a"], "a", None, [{"name": 3}])):
        path = Trajectory("odd", {"roles": roles, "task": {"x": 1}}, [event]).save(
            tmp_path / f"{number}.jsonl"
        )
        (trace,) = open_traces([path])
        assert trace.about()["name"] == str(path)
        assert "a" in trace.index()["names"]
