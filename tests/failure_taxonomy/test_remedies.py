"""Each mode has a remedy that says what to edit, and its parts exist."""

from __future__ import annotations

import pytest

from rolecraft.errors import UnknownName
from rolecraft.failure_taxonomy.modes import MODES, Category, Mode, Stage
from rolecraft.failure_taxonomy.remedies import CATEGORIES, REMEDIES, remedy_for
from rolecraft.roles import remedies as parts


def test_every_mode_and_every_category_has_a_remedy() -> None:
    assert set(CATEGORIES) == set(Category)
    for mode in MODES:
        remedy = REMEDIES[mode]
        assert remedy.edit
        for text in (remedy.tactical, remedy.structural):
            assert text.endswith(".")


def test_the_parts_that_remedies_name_exist() -> None:
    named = {part for remedy in REMEDIES.values() for part in remedy.parts}
    assert named <= set(parts.__all__)


def test_a_mode_of_ones_own_has_what_helps_against_its_category(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    own = Mode(
        id="headline.too_long",
        name="Too long",
        category=Category.VERIFICATION,
        stages=(Stage.AFTER,),
        definition="d",
        positive="p",
        near_miss="n",
    )
    monkeypatch.setitem(MODES, own.id, own)
    assert "unit tests" in remedy_for(own.id).structural
    with pytest.raises(UnknownName):
        remedy_for("headline.too_short")
