"""Code systems: every row of the crosswalk, round trips, and no comparison but through concepts."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from rolecraft.errors import UnknownName, UsageError
from rolecraft.failure_taxonomy import MODES, Category
from rolecraft.failure_taxonomy.codes import (
    ADAMAST,
    DROPPED,
    JUDGE_16,
    MAD_FULL,
    MAD_HUMAN_FINAL,
    MAD_ROUND_1,
    MAD_ROUNDS_2_3,
    MASFT_V1,
    MAST_DEFINITIONS,
    MAST_LINT,
    MAST_NOTEBOOK,
    MAST_V3,
    OPEN_CODES,
    SYSTEMS,
    CodeSystem,
    get_system,
    read_coded,
    system_for_mad_record,
    translate,
)

# Written down a second time, from the study's definitions: concept, then the codes in MAST-14,
# round 1, rounds 2 and 3, the 16-mode prompt, AdaMAST; the open codes; further names.
ROWS = [
    ("task_spec", "1.1", "1.1", "1.1", "1.1", ["MAST-1"],
     ["Poor adherence to specified constraints"], ["poor task constraint compliance"]),
    ("role_spec", "1.2", "2.6", "1.7", "1.6", ["MAST-2"],
     ["Tendency to overachieve", "Blurring roles"], ["Disobey Role Specification "]),
    ("repetition", "1.3", "2.2", "1.5", "1.4", ["MAST-3"],
     ["Step repetition"], ["Step Repetition"]),
    ("history_loss", "1.4", "2.3", "1.6", "1.5", ["MAST-4"],
     ["Discontinued reasoning"], ["backtracking interruption"]),
    ("termination_unaware", "1.5", "1.5", "1.3", "1.2", ["MAST-5"],
     ["Unaware of stopping conditions"], ["unaware of stopping conditions"]),
    ("reset", "2.1", "2.4", "2.1", "2.1", ["MAST-6"],
     ["Trajectory restart"], ["trajectory restart"]),
    ("no_clarification", "2.2", "1.4", "2.2", "2.2", ["MAST-7"],
     ["Fail to elicit clarification", "Proceed with incorrect assumptions"],
     ["fail to elicit clarification"]),
    ("derailment", "2.3", "2.5", "2.3", "2.3", ["MAST-8"],
     ["Derailing from task objectives"], ["derailment from task"]),
    ("withholding", "2.4", "3.2", "2.6", "2.5", ["MAST-9"],
     ["Withholding relevant information"], ["Information Witholding", "witholding"]),
    ("ignored_input", "2.5", "3.3", "2.7", "2.6", ["MAST-10"],
     ["Ignoring good suggestions from other agent"],
     ["ignoring suggestions from agents", "Ignored Other Agents' Input"]),
    ("reason_action", "2.6", "1.2", "1.2", "2.7", [],
     ["Misalignment between internal thoughts and response"],
     ["action-reasoning mismatch", "inconsistency between reasoning and action"]),
    ("premature_end", "3.1", "4.1", "3.1", "3.1", ["MAST-11"],
     ["Claiming that a task is done while it is not true."],
     ["ill specified termination condition leading to premature termination", "premature exit"]),
    ("verification.absent", "3.2", "4.2", "3.3", "3.3", ["MAST-12"],
     ["No attempt to verify outcome"],
     ["lack of result verification", "no or incorrect verification"]),
    ("verification.weak", "3.3", "4.3", "3.2", "3.2", ["MAST-13", "MAST-14"],
     ["Evaluator agent fails to be critical"],
     ["lack of critical verification", "weak verification"]),
    ("ambiguity", "", "1.3", "2.4", "2.4", [], ["Fail to detect ambiguities/contradictions"],
     ["Undetected conversation ambiguities and contradictions"]),
    ("unbatched", "", "2.1", "1.4", "1.3", [],
     ["Redundant conversation turns for iterative tasks rather than batching"],
     ["Unbatched repetitive execution"]),
    ("disagreement", "", "3.1", "2.5", "", [], ["Difficulty in agreeing"],
     ["Disagreement induced inaction"]),
    ("waiting", "", "3.4", "", "", [],
     ["Waiting on agents to discover known insights for increased confidence",
      "Underperform by waiting"], ["Waiting for known information"]),
]  # fmt: skip


@pytest.mark.parametrize("row", ROWS, ids=lambda row: str(row[0]))
def test_each_row_of_the_crosswalk_goes_both_ways(row: tuple[str, ...]) -> None:
    concept, v3, round_1, rounds_2_3, judge_16, adamast, questions, aliases = row
    for system, code in (
        (MAST_V3, v3),
        (MAD_ROUND_1, round_1),
        (MAD_ROUNDS_2_3, rounds_2_3),
        (JUDGE_16, judge_16),
    ):
        assert system.code(concept) == code
        assert not code or system.concept(code) == concept
        for alias in aliases:
            assert system.resolve(alias).concept == concept
            assert not code or system.concept(f"{code} {alias}\n\nA definition.") == concept
    assert ADAMAST.codes(concept) == tuple(adamast)
    assert all(ADAMAST.concept(code) == concept for code in adamast)
    assert all(OPEN_CODES.concept(question) == concept for question in questions)


@pytest.mark.parametrize(
    ("system", "absent", "weak"),
    [
        (MAST_V3, "3.2", "3.3"),
        (MASFT_V1, "3.2", "3.3"),
        (MAST_LINT, "3.2", "3.3"),
        (MAST_NOTEBOOK, "3.2", "3.3"),
        (MAD_FULL, "3.2", "3.3"),
        (MAST_DEFINITIONS, "3.3", "3.2"),
        (MAD_HUMAN_FINAL, "3.3", "3.2"),
        (MAD_ROUNDS_2_3, "3.3", "3.2"),
        (JUDGE_16, "3.3", "3.2"),
        (MAD_ROUND_1, "4.2", "4.3"),
    ],
    ids=lambda value: getattr(value, "id", ""),
)
def test_the_verification_codes_mean_what_their_system_says(
    system: CodeSystem, absent: str, weak: str
) -> None:
    assert system.concept(absent) == "verification.absent"
    assert system.concept(weak) == "verification.weak"


@pytest.mark.parametrize("source", SYSTEMS.values(), ids=list(SYSTEMS))
@pytest.mark.parametrize("target", SYSTEMS.values(), ids=list(SYSTEMS))
def test_translation_is_through_the_concept_and_comes_back(
    source: CodeSystem, target: CodeSystem
) -> None:
    for code, concept in source.concepts.items():
        there = translate(code, source, target)
        assert there == target.code(concept)
        if there:
            assert translate(there, target.id, source.name) in source.codes(concept)


@pytest.mark.parametrize(("system", "count"), [
    (MAST_V3, 14), (MAD_ROUND_1, 18), (MAD_ROUNDS_2_3, 17), (JUDGE_16, 16), (ADAMAST, 14),
    (OPEN_CODES, 22),
])  # fmt: skip
def test_a_system_has_as_many_codes_as_were_published(system: CodeSystem, count: int) -> None:
    assert len(system.concepts) == count


def test_concepts_that_the_study_gave_up_are_named_and_no_modes() -> None:
    found = MAD_ROUND_1.resolve("3.4 Waiting for known information")
    assert (found.concept, found.dropped, found.problem) == ("waiting", True, "")
    assert DROPPED["waiting"]
    assert translate("3.4", MAD_ROUND_1, MAST_V3) == ""
    assert not DROPPED.keys() & MODES.keys()


def test_codes_of_two_systems_refuse_to_be_compared() -> None:
    ours, theirs = MAST_V3["3.2"], MAST_DEFINITIONS["3.2"]
    with pytest.raises(UsageError, match=r"codes of two systems.*Compare their `concept`"):
        assert ours == theirs
    assert ours.concept != theirs.concept
    assert ours == MAST_V3["FM-3.2"]
    assert ours != MAST_V3["3.3"]
    assert len({ours, theirs}) == 2


def test_a_name_that_contradicts_its_code_is_taken_and_reported() -> None:
    found = MAST_V3.resolve("3.2 Lack of critical verification")
    assert found.concept == "verification.weak"
    assert "'3.2' is 'verification.absent'" in found.problem
    with pytest.raises(UsageError, match="Lack of critical verification"):
        MAST_V3.concept("3.2 Lack of critical verification")
    assert MAD_ROUNDS_2_3.resolve("3.2 Lack of critical verification").problem == ""
    unheard = MAST_V3.resolve("1.3 Resource misallocation")
    assert (unheard.concept, "'Resource misallocation'" in unheard.problem) == ("repetition", True)


@pytest.mark.parametrize("text", ["", "  ", "4.1", "11.1", "1.1.1", "MAST-1", "yes", "1"])
def test_what_a_system_does_not_have_is_an_error(text: str) -> None:
    with pytest.raises(UnknownName, match="MAST-14"):
        MAST_V3.concept(text)
    with pytest.raises(UnknownName):
        MAST_V3[text]


def test_a_system_is_found_by_id_or_name_and_a_bare_family_name_is_none() -> None:
    assert get_system("mast-notebook") is get_system(MAST_NOTEBOOK.name) is MAST_NOTEBOOK
    with pytest.raises(UnknownName, match="mast-v3"):
        get_system("MAST-14")


def test_categories_have_had_other_names() -> None:
    """By version: the first paper, the judge's prompt, and the third, whose names are ours."""
    assert MASFT_V1.categories[Category.VERIFICATION] == "Task verification and termination"
    assert MAST_NOTEBOOK.categories[Category.SYSTEM_DESIGN] == "Specification issues"
    assert MAST_V3.categories == {category: category.value for category in Category}


# --- the human labels of MAST-Data -----------------------------------------------------------

FINAL = "3.2 No or Incomplete Verification\n\nLack of critical verification\n(system designed to …)"


def test_a_record_is_read_in_the_codes_of_its_round() -> None:
    assert system_for_mad_record("Round 1", ["4.2 Lack of result verification"]) is MAD_ROUND_1
    assert system_for_mad_record("Round 3", ["1.2 Inconsistency between reasoning and action"]) is (
        MAD_ROUNDS_2_3
    )
    assert system_for_mad_record("Generlazability", [FINAL]) is MAD_HUMAN_FINAL
    # Without the definitions there is only the name, and the name is the paper's.
    assert system_for_mad_record("Generlazability", [FINAL.splitlines()[0]]) is MAST_V3


def test_a_record_under_the_wrong_round_is_refused() -> None:
    with pytest.raises(UsageError, match="does not fit its round 'Round 1'"):
        system_for_mad_record("Round 1", ["1.2 Disobey role specification"])
    with pytest.raises(UsageError, match="'Round 9'"):
        system_for_mad_record("Round 9", [])


def test_coded_answers_become_findings_and_nothing_is_absent_without_a_no() -> None:
    read = read_coded(
        {"MAST-13": 0, "MAST-14": "yes", "MAST-12": 1, "MAST-1": math.nan, "MAST-2": None,
         "MAST-3": False, "MAST-4": "perhaps"},
        ADAMAST, source="ada",
    )  # fmt: skip
    assert {finding.mode: finding.verdict for finding in read.findings} == {
        "task_spec": "unknown",
        "role_spec": "unknown",
        "repetition": "absent",
        "history_loss": "unknown",
        "verification.absent": "present",
        "verification.weak": "present",
    }
    assert {finding.source for finding in read.findings} == {"ada"}
    assert len(read.problems) == 2  # nan and "perhaps"; None is a gap
    half = read_coded({"MAST-13": 0, "MAST-14": None}, ADAMAST)
    assert [finding.verdict for finding in half.findings] == ["unknown"]


def test_a_no_that_annotators_were_told_not_to_give_says_nothing() -> None:
    answers = {"3.2 Lack of critical verification": False, "3.3 Lack of result verification": True}
    verdicts = {f.mode: f.verdict for f in read_coded(answers, MAD_ROUNDS_2_3).findings}
    assert verdicts == {"verification.absent": "present", "verification.weak": "unknown"}
    answers["3.3 Lack of result verification"] = False
    assert {f.verdict for f in read_coded(answers, MAD_ROUNDS_2_3).findings} == {"absent"}


def test_the_real_records_are_read_without_a_remark(data_dir: Path) -> None:
    records = json.loads((data_dir / "mad" / "mad_human_sample.json").read_text())
    systems, found = [], []
    for record in records:
        rows = record["annotations"]
        system = system_for_mad_record(record["round"], [row["failure mode"] for row in rows])
        read = read_coded({row["failure mode"]: row["annotator_1"] for row in rows}, system)
        assert read.problems == []
        assert len(read.findings) == 14
        systems.append(system)
        found.append([f.mode for f in read.findings if f.verdict == "present"])
    assert systems == [MAD_ROUND_1, MAD_ROUNDS_2_3, MAD_ROUND_1, MAD_HUMAN_FINAL]
    assert found[:2] == [["termination_unaware", "ignored_input"], ["verification.absent"]]
    assert found[3] == ["task_spec", "verification.absent", "verification.weak"]


def test_the_notes_in_the_traces_are_answers_to_the_open_questions(data_dir: Path) -> None:
    records = json.loads((data_dir / "mad" / "mad_human_sample.json").read_text())
    note = json.loads(records[0]["trace"])["note"]["options"]
    read = read_coded(note, OPEN_CODES)
    assert read.problems == []
    assert len(note) == len(OPEN_CODES.concepts)
    assert [f.mode for f in read.findings if f.verdict == "present"] == [
        "termination_unaware",
        "ignored_input",
    ]
    assert set(read.dropped) == set(DROPPED)
