"""Exports: finished rounds, as labels that are read back and as a table that is only a table."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest

from rolecraft.failure_taxonomy import MODES, annotate
from rolecraft.failure_taxonomy.labels import Labels, read_labels
from rolecraft.viewer.labelling import Desk, OpenTrace, export_folder, exports

FOUND = {"events": [3], "role": "coder", "quote": '"tool": "list_files"', "note": "again"}
PRESENT: dict[str, Any] = {"verdict": "present", "quote": '"tool":"list_files"'}


@pytest.fixture
def labelled(desk: Desk, trace: OpenTrace) -> Desk:
    """Ann has finished two rounds, Ben one, Cara is not done; the modes' verdicts differ."""
    for name in ("Ann", "Ben", "Cara"):
        desk.join(name)
        for mode in MODES:
            value = {"verdict": "unknown" if mode == "reset" else "absent"}
            if mode == "repetition" and name == "Ann":
                value = FOUND | PRESENT
            desk.edit(name, trace.key, f"mode/{mode}", value, base=0)
        desk.edit(name, trace.key, "note", f"=HYPERLINK({name})", base=0)
        desk.edit(name, trace.key, "outcome", name == "Ann", base=0)
        desk.edit(name, trace.key, "decisive", {"role": "coder", "step": 3}, base=0)
    desk.finish("Ann", trace.key)
    desk.finish("Ben", trace.key)
    desk.reveal("Ann", trace.key)
    desk.begin_next("Ann", trace.key)
    desk.edit("Ann", trace.key, "note", "after all", base=0, in_round=2)
    desk.finish("Ann", trace.key)
    desk.adjudicate(
        "Ann", trace.key, "mode/repetition", FOUND | PRESENT | {"why": "both folders alike"}, base=0
    )
    desk.adjudicate("Ann", trace.key, "mode/reset", PRESENT | {"quote": "made up"}, base=0)
    return desk


def test_files_are_by_round_and_by_annotator(labelled: Desk) -> None:
    assert list(exports(labelled)) == [
        "gold.jsonl",
        "round-1.Ann.jsonl",
        "round-1.Ben.jsonl",
        "round-1.jsonl",
        "round-2.Ann.jsonl",
        "round-2.jsonl",
        "labels.csv",
    ]


def test_what_is_written_is_read_back_as_labels(
    labelled: Desk, trace: OpenTrace, tmp_path: Path
) -> None:
    export_folder(labelled, tmp_path / "out")
    rows = {row.annotator: row for row in read_labels(tmp_path / "out" / "round-1.jsonl")}
    assert set(rows) == {"Ann", "Ben"}
    ann = rows["Ann"]
    assert ann.trace == trace.name
    assert ann.outcome is True
    assert (ann.decisive.role, ann.decisive.step) == ("coder", 3)
    (found,) = [finding for finding in ann.findings if finding.verdict == "present"]
    assert (found.mode, found.events, found.role) == ("repetition", (3,), "coder")
    assert found.quote == '"tool":"list_files"'
    assert (found.source, found.reason) == ("person", "again")
    assert ann.verdict("reset") == "unknown"
    assert {finding.mode for finding in ann.findings} == set(MODES)


def test_a_round_is_exported_as_it_was(labelled: Desk) -> None:
    first = json.loads(exports(labelled)["round-1.Ann.jsonl"])
    second = json.loads(exports(labelled)["round-2.Ann.jsonl"])
    assert (first["note"], second["note"]) == ("=HYPERLINK(Ann)", "after all")


def test_gold_says_who_decided_and_why_and_holds_no_evidence_that_is_none(labelled: Desk) -> None:
    gold = Labels.from_dict(json.loads(exports(labelled)["gold.jsonl"]))
    (finding,) = gold.findings
    assert finding.mode == "repetition"
    assert finding.source == "adjudicated by Ann"
    assert finding.reason == "both folders alike"


def test_the_table_has_a_row_for_each_and_no_formula(labelled: Desk) -> None:
    rows = list(csv.DictReader(io.StringIO(exports(labelled)["labels.csv"])))
    assert [(row["annotator"], row["round"]) for row in rows] == [
        ("Ann", "1"),
        ("Ben", "1"),
        ("Ann", "2"),
        ("gold", ""),
    ]
    assert rows[0]["repetition"] == "1"
    assert rows[0]["reset"] == ""
    assert rows[0]["note"] == "'=HYPERLINK(Ann)"
    assert rows[1]["done"] == "0"
    assert set(MODES) <= rows[0].keys()


def test_an_annotator_gets_others_labels_of_compared_traces_only(
    labelled: Desk, trace: OpenTrace
) -> None:
    assert list(exports(labelled, seen_by="Ben")) == [
        "round-1.Ben.jsonl",
        "round-1.jsonl",
        "labels.csv",
    ]
    assert "Ann" not in str(exports(labelled, seen_by="Ben"))
    assert exports(labelled, seen_by="Ann") == exports(labelled)
    labelled.reveal("Ben", trace.key)
    assert exports(labelled, seen_by="Ben") == exports(labelled)


async def test_who_saw_suggestions_is_told(trace: OpenTrace, tmp_path: Path) -> None:
    report = await annotate(trace.name)
    suggestion = Labels.from_dict(report.to_dict())
    desk = Desk([trace], tmp_path / "labels", suggestions=[suggestion])
    desk.join("Ann")
    assert desk.suggest("Ann", trace.key)
    for mode in MODES:
        desk.edit("Ann", trace.key, f"mode/{mode}", {"verdict": "absent"}, base=0)
    desk.finish("Ann", trace.key)
    line = json.loads(exports(desk)["round-1.jsonl"])
    assert {finding["source"] for finding in line["findings"]} == {"person.saw_suggestions"}
    (row,) = csv.DictReader(io.StringIO(exports(desk)["labels.csv"]))
    assert row["saw_suggestions"] == "1"


def test_agreement_reads_the_labels(labelled: Desk, tmp_path: Path) -> None:
    from rolecraft.failure_taxonomy.agreement import agreement

    export_folder(labelled, tmp_path / "out")
    gold = read_labels(tmp_path / "out" / "gold.jsonl")
    result = agreement(gold, read_labels(tmp_path / "out" / "round-1.Ann.jsonl"))
    assert result.rows["repetition"].score("recall") == 1.0
