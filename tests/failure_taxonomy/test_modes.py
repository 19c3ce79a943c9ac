"""The 14 modes and their codes."""

from __future__ import annotations

import pytest

from rolecraft.errors import UnknownName
from rolecraft.failure_taxonomy import MAST_V3, MODES, Category, Stage, get_mode


def test_the_modes_are_those_of_the_study_with_its_stages() -> None:
    """Stages as in the study's figure, e.g. a reset only during execution."""
    assert len(MODES) == 14
    before, during, after = Stage.BEFORE, Stage.DURING, Stage.AFTER
    assert {mode.id: mode.stages for mode in MODES.values()} == {
        "task_spec": (before, during),
        "role_spec": (before, during),
        "repetition": (during,),
        "history_loss": (before, during),
        "termination_unaware": (before, during, after),
        "reset": (during,),
        "no_clarification": (before, during),
        "derailment": (during,),
        "withholding": (before, during),
        "ignored_input": (during,),
        "reason_action": (before, during),
        "premature_end": (during, after),
        "verification.absent": (after,),
        "verification.weak": (after,),
    }


def test_codes_follow_the_category_and_are_never_shared() -> None:
    first = {Category.SYSTEM_DESIGN: "1", Category.MISALIGNMENT: "2", Category.VERIFICATION: "3"}
    codes = {concept: MAST_V3.code(concept) for concept in MODES}
    assert len(set(codes.values())) == 14
    for concept, code in codes.items():
        assert code.startswith(first[MODES[concept].category])


def test_the_code_system_says_which_meaning_of_3_2_it_has() -> None:
    assert MAST_V3.name == "MAST-14 (arXiv 2503.13657v3)"
    assert MAST_V3.code("verification.absent") == "3.2"
    assert MAST_V3.code("verification.weak") == "3.3"


def test_an_unknown_mode_names_the_nearest_and_warns_of_codes() -> None:
    with pytest.raises(UnknownName, match=r"Did you mean 'verification\.absent'") as raised:
        get_mode("verification.absnt")
    assert "concept id" in str(raised.value)
    with pytest.raises(UnknownName, match="different modes in different versions"):
        get_mode("3.2")


def test_every_mode_has_what_a_judge_needs() -> None:
    for mode in MODES.values():
        assert mode.definition.endswith(".")
        assert mode.positive
        assert mode.near_miss
        assert mode.confused_with
        assert mode.id not in mode.confused_with
        assert all(other in MODES for other in mode.confused_with)
