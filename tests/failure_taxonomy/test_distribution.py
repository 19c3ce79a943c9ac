"""Failures over many traces: shares of what was decided, groups, stages, what goes together."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from rolecraft.errors import TraceError, UnknownName, UsageError
from rolecraft.failure_taxonomy.distribution import distribution, phi
from rolecraft.failure_taxonomy.distribution_input import (
    UNSTATED,
    LabelledTrace,
    labelled_traces,
    origin_of,
)
from rolecraft.failure_taxonomy.labels import Labels, write_labels
from rolecraft.failure_taxonomy.modes import MODES, Category, Stage
from rolecraft.trajectories import Event, FailureFinding, Trajectory
from rolecraft.trajectories.jsonl import save


def labels(trace: str, said: str, *, annotator: str = "judge:x") -> Labels:
    """`"repetition+ reset- derailment?"` as labels."""
    verdicts = {"+": "present", "-": "absent", "?": "unknown"}
    findings = tuple(
        FailureFinding(each[:-1], verdicts[each[-1]])  # type: ignore[arg-type]
        for each in said.split()
    )
    return Labels(trace=trace, annotator=annotator, findings=findings)


def traces(*said: str, **origin: str) -> list[LabelledTrace]:
    return [LabelledTrace(labels(str(n), each), origin) for n, each in enumerate(said)]


def test_a_share_is_of_the_traces_in_which_it_was_decided() -> None:
    found = distribution(traces("repetition+", "repetition-", "repetition?", "reset-"))
    count = found.whole.modes["repetition"]
    assert (count.present, count.absent, count.unknown) == (1, 1, 2)
    assert (count.rate, count.unknown_share) == (0.5, 0.5)
    never = found.whole.modes["derailment"]
    assert (never.rate, never.unknown_share) == (None, 1.0)
    assert found.whole.unknown_share == pytest.approx((14 * 4 - 3) / (14 * 4))


def test_finds_of_annotators_that_never_deny_enter_no_share() -> None:
    rows = [
        LabelledTrace(labels("0", "repetition-", annotator="gold")),
        LabelledTrace(labels("1", "repetition+", annotator="gold")),
        *(LabelledTrace(labels(str(n), "repetition+", annotator="rules")) for n in (2, 3)),
        LabelledTrace(labels("4", "repetition? reset+", annotator="rules")),
    ]
    found = distribution(rows)
    count = found.whole.modes["repetition"]
    assert (count.present, count.added, count.decided, count.rate) == (3, 2, (1, 2), 0.5)
    assert found.whole.failures == 4  # they are failures all the same
    # Nobody decides this one, so there is no rate that it could be in.
    reset = found.whole.modes["reset"]
    assert (reset.added, reset.one_sided) == (0, True)
    # A judge that answered about every trace could have denied it.
    judged = [LabelledTrace(labels("5", "repetition+", annotator="judge:y")), *rows[:2]]
    assert distribution(judged).whole.modes["repetition"].added == 0


def test_what_detectors_alone_found_in_all_their_traces_is_added_too() -> None:
    found = FailureFinding("repetition", "present", source="detector.repetition")
    rows = [
        LabelledTrace(labels("0", "repetition-", annotator="gold")),
        LabelledTrace(Labels(trace="1", annotator="rolecraft detectors", findings=(found,))),
    ]
    assert distribution(rows).whole.modes["repetition"].decided == (0, 1)


def test_groups_stages_and_categories_are_counted() -> None:
    rows = [
        *traces("repetition+ reset+", "verification.weak+", system="AG2"),
        *traces("repetition+", system="ChatDev"),
    ]
    found = distribution(rows)
    assert [(group.name, group.traces, group.failures) for group in found.groups] == [
        ("AG2", 2, 3),
        ("ChatDev", 1, 1),
    ]
    assert found.whole.categories == {
        Category.SYSTEM_DESIGN: 2,
        Category.MISALIGNMENT: 1,
        Category.VERIFICATION: 1,
    }
    assert found.whole.stage(Stage.DURING) == 3
    assert found.whole.stage(Stage.AFTER) == 1
    assert found.whole.share("repetition") == 0.5
    assert [group.name for group in distribution(rows, by="model").groups] == [UNSTATED]
    with pytest.raises(UnknownName, match="system"):
        distribution(rows, by="sytem")


def test_correlations_are_over_what_both_decided() -> None:
    found = distribution(
        traces(
            "repetition+ reset+",
            "repetition+ reset+",
            "repetition- reset-",
            "repetition- reset-",
            "repetition+ reset?",
        )
    )
    assert found.modes is not None
    assert found.modes.values["repetition", "reset"] == pytest.approx(1.0)
    assert found.modes.traces["repetition", "reset"] == 4
    assert found.modes.values["repetition", "derailment"] is None
    assert found.categories is not None
    # Undecided modes of a category leave it undecided, unless no trace has them decided at all.
    design, misaligned = str(Category.SYSTEM_DESIGN), str(Category.MISALIGNMENT)
    assert found.categories.values[design, misaligned] == pytest.approx(1.0)
    assert found.categories.traces[design, misaligned] == 4


def test_phi_is_pearsons_correlation_of_yes_and_no() -> None:
    pairs = [(True, True)] * 3 + [(True, False)] * 2 + [(False, True)] + [(False, False)] * 4
    xs, ys = [float(a) for a, _ in pairs], [float(b) for _, b in pairs]
    mean_x, mean_y = sum(xs) / 10, sum(ys) / 10
    cov = sum((x - mean_x) * (y - mean_y) for x, y in zip(xs, ys, strict=True))
    var = sum((x - mean_x) ** 2 for x in xs) * sum((y - mean_y) ** 2 for y in ys)
    assert phi(pairs) == pytest.approx(cov / math.sqrt(var))
    assert phi(pairs[:2]) is None
    assert phi([(True, True), (True, False), (True, True)]) is None


# --- where labels come from -----------------------------------------------------------------------


def journal(path: Path, **about: object) -> Path:
    about = {"roles": [{"name": "ada", "model": "openai/gpt-4o"}], **about}
    events = [Event("message", role="ada", content="hi"), Event("stop", data={"reason": "idle"})]
    for seq, event in enumerate(events):
        event.seq = seq
    return save(Trajectory(path.stem, about, events), path)


async def test_journals_are_looked_at_by_the_detectors_and_say_where_they_come_from(
    tmp_path: Path,
) -> None:
    journal(tmp_path / "runs" / "a.jsonl", scenario="relay")
    (row,) = await labelled_traces(tmp_path)
    assert row.labels.annotator == "rolecraft detectors"
    assert {finding.mode for finding in row.labels.findings} == set(MODES)
    assert row.group("scenario") == "relay"
    assert row.group("model") == "openai/gpt-4o"
    assert row.group("folder") == "runs"
    assert row.group("annotator") == "rolecraft detectors"


def test_a_run_of_ours_is_of_its_tasks_family_or_of_its_name() -> None:
    def system(name: str, **about: object) -> str:
        return origin_of(Trajectory(name, about)).get("system", "")

    assert system("x", task={"id": "relay-train-17", "prompt": "p"}) == "relay"
    assert system("news-team-12") == "news-team"
    assert system("x", format="otel") == "otel"
    assert system("x", format="otel", workflow="news") == "news"


async def test_a_labels_file_says_what_the_traces_that_it_names_say(tmp_path: Path) -> None:
    run = journal(tmp_path / "a.jsonl", scenario="relay")
    path = write_labels(
        [labels(str(run), "reset-"), labels("gone.jsonl", "reset+")], tmp_path / "labels.jsonl"
    )
    first, second = await labelled_traces([path])
    assert (first.group("scenario"), second.group("scenario")) == ("relay", UNSTATED)
    assert first.labels.findings == (FailureFinding("reset", "absent"),)


async def test_of_several_annotators_the_majority_counts_or_the_one_who_is_named(
    tmp_path: Path,
) -> None:
    said = {"ann": "reset+", "ben": "reset-", "cy": "reset+"}
    rows = [labels("t", each, annotator=name) for name, each in said.items()]
    path = write_labels(rows, tmp_path / "labels.jsonl")
    (row,) = await labelled_traces(path)
    assert row.labels.verdict("reset") == "present"
    assert "majority of ann, ben, cy" in row.labels.annotator
    (row,) = await labelled_traces(path, annotator="ben")
    assert row.labels.verdict("reset") == "absent"
    with pytest.raises(UnknownName, match="ben"):
        await labelled_traces(path, annotator="bert")


async def test_a_trace_that_is_labelled_twice_by_one_is_an_error(tmp_path: Path) -> None:
    path = write_labels([labels("t", "reset+"), labels("t", "reset-")], tmp_path / "labels.jsonl")
    with pytest.raises(UsageError, match="'judge:x' twice"):
        await labelled_traces(path)


async def test_a_trace_with_labels_beside_it_counts_once_wherever_it_is_named_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As `annotate runs --out runs/labels.jsonl` leaves a folder."""
    for name in ("a", "b"):
        journal(tmp_path / "runs" / f"{name}.jsonl")
    monkeypatch.chdir(tmp_path)
    write_labels([labels("runs/b.jsonl", "reset+")], "runs/labels.jsonl")
    for folder, within in (("runs", "."), (".", "runs")):
        monkeypatch.chdir(tmp_path / within)
        found = await labelled_traces(folder)
        by = {Path(row.labels.trace).name: row.labels.annotator for row in found}
        assert len(found) == 2
        assert by == {"b.jsonl": "judge:x", "a.jsonl": "rolecraft detectors"}


async def test_what_cannot_be_read_is_told_and_does_not_cost_the_rest(tmp_path: Path) -> None:
    journal(tmp_path / "a.jsonl")
    (tmp_path / "b.json").write_text(json.dumps({"no": "trace"}))
    told: list[TraceError] = []
    assert len(await labelled_traces(tmp_path, on_error=told.append)) == 1
    assert "b.json" in str(told[0])
    with pytest.raises(TraceError):
        await labelled_traces(tmp_path)
    (tmp_path / "a.jsonl").unlink()
    with pytest.raises(TraceError, match=r"b\.json"):
        await labelled_traces(tmp_path, on_error=told.append)
