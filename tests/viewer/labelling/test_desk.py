"""The desk: blind until finished, on record what was seen, closed rounds stay as they are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rolecraft.errors import UsageError
from rolecraft.failure_taxonomy import MODES
from rolecraft.failure_taxonomy.labels import Labels
from rolecraft.trajectories import FailureFinding
from rolecraft.viewer.labelling import Desk, NotAllowed, OpenTrace, open_traces
from rolecraft.viewer.labelling.comparing import compare_all, compare_trace

PRESENT = {
    "verdict": "present",
    "events": [3],
    "role": "coder",
    "quote": '"tool":"list_files"',
    "note": "again",
}
ABSENT: dict[str, Any] = {"verdict": "absent", "events": [], "role": "", "quote": "", "note": ""}


def label_all(desk: Desk, annotator: str, key: str, said: dict[str, Any]) -> None:
    """Say something about every mode, absent unless `said` has it, and finish."""
    desk.join(annotator)
    sheet = desk.sheet(annotator, key)
    for mode in MODES:
        field = f"mode/{mode}"
        desk.edit(
            annotator,
            key,
            field,
            said.get(mode, ABSENT),
            base=sheet.revs.get(field, 0),
            in_round=sheet.round,
        )
    desk.finish(annotator, key)


@pytest.fixture
def key(trace: OpenTrace) -> str:
    return trace.key


def test_names_are_taken_as_they_are_and_files_are_safe(desk: Desk) -> None:
    for name in ("Ann", "../../etc/passwd", "Zoë Ŵ", "-", "_"):
        assert desk.join(name) == name
    assert desk.join("  Ann ") == "Ann"
    assert sorted(desk.annotators) == sorted(["Ann", "../../etc/passwd", "Zoë Ŵ", "-", "_"])
    files = list((desk.folder / "annotators").iterdir())
    assert len(files) == 5
    assert Desk([], desk.folder).annotators == desk.annotators


@pytest.mark.parametrize("name", ["", "   ", "x" * 61, "a\0b"])
def test_a_name_that_is_none_is_refused(desk: Desk, name: str) -> None:
    with pytest.raises(UsageError, match="1 to 60 characters"):
        desk.join(name)


def test_a_name_that_differs_in_capitals_only_is_refused(desk: Desk) -> None:
    desk.join("Ann")
    with pytest.raises(UsageError, match="'Ann'"):
        desk.join("ann")


def test_somebody_unknown_cannot_label(desk: Desk, key: str) -> None:
    with pytest.raises(UsageError, match="no annotator 'Eve'"):
        desk.edit("Eve", key, "note", "x", base=0)


def test_what_is_said_is_there_for_a_new_desk_and_a_moved_file(
    desk: Desk, key: str, tmp_path: Path
) -> None:
    desk.join("Ann")
    desk.edit("Ann", key, "mode/repetition", PRESENT, base=0)
    desk.edit("Ann", key, "decisive", {"role": "coder", "step": 3}, base=0)
    moved = (tmp_path / "runs").rename(tmp_path / "elsewhere")
    again = Desk(open_traces([moved]), desk.folder)
    sheet = again.sheet("Ann", key)
    assert sheet.values["mode/repetition"] == PRESENT
    assert sheet.decisive is not None
    assert sheet.decisive.step == 3
    assert again.strays == {}


def test_labels_of_a_trace_that_has_changed_are_named_and_not_shown(
    desk: Desk, key: str, save_trace: Any, tmp_path: Path
) -> None:
    from rolecraft.trajectories import Event

    desk.join("Ann")
    desk.edit("Ann", key, "note", "x", base=0)
    changed = save_trace("parser", [Event("message", role="coder", content="other")])
    again = Desk(open_traces([changed]), desk.folder)
    (trace,) = again.traces.values()
    assert again.sheet("Ann", trace.key).values == {}
    assert again.strays == {str(changed): ["Ann"]}


@pytest.mark.parametrize(
    ("field", "value", "wrong"),
    [
        ("mode/nonsense", ABSENT, "no mode 'nonsense'"),
        ("done", True, "no field 'done'"),
        ("mode/reset", {"verdict": "maybe"}, "'maybe'"),
        ("mode/reset", {"verdict": "present", "events": ["1"]}, r"\['1'\]"),
        ("mode/reset", {"verdict": "present", "events": [True]}, "True"),
        ("mode/reset", "present", "'present'"),
        ("mode/reset", {"verdict": "absent", "note": 3}, "`note` is a text"),
        ("note", "x" * 100_001, "100,000"),
        ("outcome", "yes", "'yes'"),
        ("decisive", {"role": "a", "step": "3"}, "'3'"),
    ],
)
def test_what_is_no_label_is_refused(
    desk: Desk, key: str, field: str, value: Any, wrong: str
) -> None:
    desk.join("Ann")
    with pytest.raises(UsageError, match=wrong):
        desk.edit("Ann", key, field, value, base=0)
    assert desk.sheet("Ann", key).values == {}


@pytest.mark.parametrize(
    ("part", "flaw"),
    [
        ({"events": []}, "names no event"),
        ({"events": [99]}, "does not exist"),
        ({"quote": ""}, "has no quote"),
        ({"quote": "never said"}, "quotes what none"),
        ({"role": "pm"}, "'coder' made the quoted event"),
    ],
)
def test_a_present_without_evidence_is_kept_as_a_draft_and_cannot_be_finished(
    desk: Desk, key: str, part: dict[str, Any], flaw: str
) -> None:
    desk.join("Ann")
    for mode in MODES:
        desk.edit("Ann", key, f"mode/{mode}", ABSENT, base=0)
    rev = desk.sheet("Ann", key).revs["mode/repetition"]
    desk.edit("Ann", key, "mode/repetition", PRESENT | part, base=rev)
    with pytest.raises(NotAllowed, match=flaw):
        desk.finish("Ann", key)
    assert desk.sheet("Ann", key).values["mode/repetition"] == PRESENT | part


def test_every_mode_needs_a_verdict_before_a_round_is_finished(desk: Desk, key: str) -> None:
    desk.join("Ann")
    desk.edit("Ann", key, "mode/repetition", ABSENT, base=0)
    with pytest.raises(NotAllowed, match="`reset` has no verdict"):
        desk.finish("Ann", key)


def test_an_absence_needs_no_quote(desk: Desk, key: str) -> None:
    absence = {"verdict": "present", "events": [4], "role": "coder", "quote": "", "note": ""}
    label_all(desk, "Ann", key, {"verification.absent": absence})
    assert desk.finished("Ann", key) is not None


def test_others_labels_are_hidden_until_one_asks_to_compare(desk: Desk, key: str) -> None:
    label_all(desk, "Ann", key, {"repetition": PRESENT})
    label_all(desk, "Ben", key, {})
    with pytest.raises(NotAllowed, match="hidden"):
        compare_trace(desk, "Ben", key)
    assert compare_all(desk, "Ben") == {"rounds": [], "traces": []}
    with pytest.raises(NotAllowed, match="hidden"):
        desk.adjudicate("Ben", key, "mode/reset", ABSENT, base=0)
    desk.reveal("Ben", key)
    said = compare_trace(desk, "Ben", key)
    assert said["fields"]["mode/repetition"]["Ann"]["quote"] == '"tool":"list_files"'
    assert said["disagreements"] == ["mode/repetition"]


def test_unfinished_labels_are_shown_to_nobody(desk: Desk, key: str) -> None:
    desk.join("Ann")
    desk.edit("Ann", key, "mode/repetition", PRESENT, base=0)
    label_all(desk, "Ben", key, {})
    desk.reveal("Ben", key)
    assert [one["name"] for one in compare_trace(desk, "Ben", key)["annotators"]] == ["Ben"]


def test_a_finished_round_is_closed_and_can_be_reopened_while_it_is_blind(
    desk: Desk, key: str
) -> None:
    label_all(desk, "Ann", key, {})
    with pytest.raises(NotAllowed, match="Round 1 of this trace is closed"):
        desk.edit("Ann", key, "note", "late", base=0)
    desk.reopen("Ann", key)
    desk.edit("Ann", key, "note", "in time", base=0)
    desk.finish("Ann", key)
    desk.reveal("Ann", key)
    with pytest.raises(NotAllowed, match="looked at"):
        desk.reopen("Ann", key)


def test_no_edit_gets_into_a_round_that_closes_at_that_moment(desk: Desk, key: str) -> None:
    """Two tabs: one types while the other asks to see what others say.

    Whether the round is open and that the edit is written is one step; between reading the sheet
    and writing, the other tab's mark could come in before.
    """
    desk.join("Ann")
    log = desk._log("Ann")
    other = Desk(desk.traces.values(), desk.folder)  # another process on the same folder
    seen = log.of(key)
    other.reveal("Ann", key)
    assert seen == []  # what the first tab knew
    with pytest.raises(NotAllowed, match="is closed"):
        desk.edit("Ann", key, "note", "late", base=0)
    assert "note" not in desk.sheet("Ann", key).values

    stood: list[int] = []

    def forbids(edits: Any) -> None:
        stood.append(len(edits))
        raise NotAllowed("no")

    before = log.path.read_bytes()
    with pytest.raises(NotAllowed, match="no"):
        log.add(log.of(key)[-1], check=forbids)
    assert (stood, log.path.read_bytes()) == ([1], before)


def test_of_an_edit_and_a_look_at_the_same_time_the_edit_is_before_or_refused(
    desk: Desk, key: str
) -> None:
    from concurrent.futures import ThreadPoolExecutor

    def type_on(number: int) -> None:
        try:
            desk.edit(
                "Ann", key, "note", str(number), base=log.of(key)[-1].rev if number else 0, tab="t"
            )
        except NotAllowed:
            return

    desk.join("Ann")
    log = desk._log("Ann")
    type_on(0)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(type_on, range(1, 20)))
        looked = pool.submit(desk.reveal, "Ann", key)
        list(pool.map(type_on, range(20, 40)))
        looked.result()
    fields = [edit.field for edit in log.of(key)]
    assert fields.count("revealed") == 1
    assert fields[-1] == "revealed"


def test_who_looks_before_finishing_has_no_blind_round(desk: Desk, key: str) -> None:
    label_all(desk, "Ann", key, {})
    desk.join("Cara")
    desk.reveal("Cara", key)
    with pytest.raises(NotAllowed, match="others' labels were looked at"):
        desk.edit("Cara", key, "note", "x", base=0)
    assert desk.finished("Cara", key) is None


def test_the_second_round_begins_with_the_first_and_leaves_it_as_it_was(
    desk: Desk, key: str
) -> None:
    label_all(desk, "Ann", key, {"repetition": PRESENT})
    with pytest.raises(NotAllowed, match="Round 1"):
        desk.edit("Ann", key, "mode/repetition", ABSENT, base=0)
    desk.reveal("Ann", key)
    assert desk.begin_next("Ann", key) == 2
    assert desk.sheet("Ann", key).values["mode/repetition"] == PRESENT
    desk.edit("Ann", key, "mode/repetition", ABSENT, base=0, in_round=2)
    desk.finish("Ann", key)
    first, second = (desk.finished("Ann", key, in_round=number) for number in (1, 2))
    assert first is not None
    assert second is not None
    assert first.values["mode/repetition"] == PRESENT
    assert second.values["mode/repetition"] == ABSENT


def test_a_round_in_progress_does_not_begin_another(desk: Desk, key: str) -> None:
    desk.join("Ann")
    with pytest.raises(NotAllowed, match="Finish round 1"):
        desk.begin_next("Ann", key)


def test_that_suggestions_were_seen_is_stored_before_they_are_given(
    trace: OpenTrace, tmp_path: Path
) -> None:
    found = FailureFinding("repetition", "present", (3,), "coder", '"tool":"list_files"')
    labels = Labels(trace=trace.name, annotator="judge", findings=(found,))
    other = Labels(trace="another trace", annotator="judge", findings=(found,))
    desk = Desk([trace], tmp_path / "labels", suggestions=[labels, other])
    desk.join("Ann")
    assert desk.sheet("Ann", trace.key).saw == ()
    assert desk.suggest("Ann", trace.key) == [labels]
    assert desk.sheet("Ann", trace.key).saw == ("judge",)
    assert Desk([trace], tmp_path / "labels").sheet("Ann", trace.key).saw == ("judge",)


def test_what_was_decided_says_by_whom_and_another_decision_is_a_conflict(
    desk: Desk, key: str
) -> None:
    from rolecraft.viewer.labelling import Conflict

    for name in ("Ann", "Ben"):
        label_all(desk, name, key, {})
        desk.reveal(name, key)
    desk.adjudicate("Ann", key, "mode/repetition", PRESENT | {"why": "seen twice"}, base=0)
    with pytest.raises(Conflict, match="by 'Ann'"):
        desk.adjudicate("Ben", key, "mode/repetition", ABSENT, base=0)
    gold = desk.gold_sheet(key)
    assert gold.authors["mode/repetition"] == "Ann"
    assert gold.values["mode/repetition"]["why"] == "seen twice"


def test_agreement_is_that_of_the_agreement_command(desk: Desk, key: str) -> None:
    from rolecraft.failure_taxonomy.agreement.counts import Counts, kappa

    label_all(desk, "Ann", key, {"repetition": PRESENT})
    label_all(desk, "Ben", key, {"repetition": PRESENT, "task_spec": PRESENT})
    desk.reveal("Ann", key)
    said = compare_all(desk, "Ann")
    (first,) = said["rounds"]
    assert first["method"] == "Cohen's kappa"
    assert first["pooled"] == pytest.approx(kappa(Counts(tp=1, fp=1, tn=12)))
    rows = {row["mode"]: row for row in first["rows"]}
    assert rows["repetition"]["present"] == {"Ann": 1, "Ben": 1}
    assert (rows["task_spec"]["same"], rows["task_spec"]["traces"]) == (0, 1)
    assert said["traces"][0]["disagreements"] == ["mode/task_spec"]


def test_after_a_second_round_who_made_none_still_says_the_same(desk: Desk, key: str) -> None:
    label_all(desk, "Ann", key, {"repetition": PRESENT})
    label_all(desk, "Ben", key, {})
    for name in ("Ann", "Ben"):
        desk.reveal(name, key)
    desk.begin_next("Ben", key)
    desk.edit("Ben", key, "mode/repetition", PRESENT, base=0, in_round=2)
    assert [row["round"] for row in compare_all(desk, "Ann")["rounds"]] == [1]
    desk.finish("Ben", key)
    first, second = compare_all(desk, "Ann")["rounds"]
    assert (first["round"], second["round"]) == (1, 2)
    assert second["pooled"] == 1.0
    assert first["pooled"] < 1.0


def test_three_annotators_are_compared_by_fleiss(desk: Desk, key: str) -> None:
    for name in ("Ann", "Ben", "Cara"):
        label_all(desk, name, key, {"repetition": PRESENT} if name != "Cara" else {})
    desk.reveal("Ann", key)
    (first,) = compare_all(desk, "Ann")["rounds"]
    assert first["method"] == "Fleiss' kappa"
    # 14 items, one of them 2 to 1: observed 13/14 + 1/14 * 1/3; by chance from 2 of 42 present.
    observed, chance = (13 + 1 / 3) / 14, (2 / 42) ** 2 + (40 / 42) ** 2
    assert first["pooled"] == pytest.approx((observed - chance) / (1 - chance))
