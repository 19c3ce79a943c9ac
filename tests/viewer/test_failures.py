"""The page on many traces: says what was judged, shows what was not, escapes, needs nothing."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from dataclasses import replace

import pytest

from rolecraft.failure_taxonomy.distribution import distribution
from rolecraft.failure_taxonomy.distribution_input import LabelledTrace
from rolecraft.failure_taxonomy.labels import Labels
from rolecraft.failure_taxonomy.modes import MODES
from rolecraft.failure_taxonomy.own_modes import register_mode
from rolecraft.trajectories import FailureFinding
from rolecraft.viewer.failures import failures_page
from rolecraft.viewer.markup import escape

EVIL = "<script>alert(1)</script>"


def traces(*rows: str, system: str = "AG2", annotator: str = "judge:x") -> list[LabelledTrace]:
    words = {"+": "present", "-": "absent", "?": "unknown"}
    return [
        LabelledTrace(
            Labels(
                trace=f"{system}/{number}",
                annotator=annotator,
                findings=tuple(
                    FailureFinding(each[:-1], words[each[-1]])  # type: ignore[arg-type]
                    for each in row.split()
                ),
            ),
            {"system": system},
        )
        for number, row in enumerate(rows)
    ]


MANY = [
    *traces("repetition+ reset+", "repetition+ reset+", "repetition- reset-", system="AG2"),
    *traces("repetition+ reset?", "repetition- reset-", system="ChatDev"),
]


def svgs(page: str) -> list[ElementTree.Element]:
    return [ElementTree.fromstring(each) for each in re.findall(r"<svg.*?</svg>", page, re.DOTALL)]


def test_the_page_says_first_how_much_was_judged_and_by_what() -> None:
    page = failures_page(distribution(MANY))
    assert "5 traces, labelled by judge:x (5)" in page
    assert (
        "2 of 14 modes were decided in at least one trace; 87% of all verdicts are unknown" in page
    )
    assert "not judged" in page


def test_plots_are_well_formed_and_show_every_mode_group_and_pair() -> None:
    stages, groups, modes, categories = svgs(failures_page(distribution(MANY)))
    said = [" ".join(each.itertext()) for each in (stages, groups, modes, categories)]
    assert "42.9% · 3 of 5" not in said[0]  # 3 of the 5 failures
    assert "60.0% · 3 of 5" in said[0]
    assert "not judged" in said[0]
    assert "AG2" in said[1]
    assert "ChatDev" in said[1]
    assert "reset and repetition: 1.00, 4 traces" in said[2]
    assert "derailment and derailment: not known, 0 traces" in said[2]
    assert "Inter-agent misalignment and System design issues: 1.00, 4 traces" in said[3]


def test_what_fails_has_its_remedies() -> None:
    page = failures_page(distribution(MANY))
    assert "Stop or nudge when a step comes again" in page
    assert "SuperiorCloses" not in page
    assert "What to do" not in failures_page(distribution(traces("reset-")))


@pytest.mark.parametrize(
    "rows",
    [traces("reset?"), traces("reset-"), traces("reset+"), traces("")],
    ids=["unknown", "absent", "present", "nothing"],
)
def test_few_labels_are_a_page_too(rows: list[LabelledTrace]) -> None:
    page = failures_page(distribution(rows))
    assert "1 trace," in page
    assert svgs(page) is not None


def test_names_are_shown_as_text_and_nothing_comes_from_outside() -> None:
    rows = traces("repetition+", system=EVIL, annotator=EVIL)
    page = failures_page(distribution(rows), title=EVIL, notes=[EVIL])
    assert EVIL not in page
    assert "&lt;script&gt;" in page
    assert "http://" not in page.replace("http://www.w3.org", "")
    assert "https://" not in page
    assert "src=" not in page


def test_the_page_says_what_every_mode_means_own_ones_too() -> None:
    """Who gets the page by mail has no documentation beside it."""
    own = replace(
        MODES["repetition"], id="shop.haggling", name="Haggling", definition="It <haggles>."
    )
    before = dict(MODES)
    register_mode(own)
    try:
        page = failures_page(distribution(MANY))
    finally:
        MODES.clear()
        MODES.update(before)
    assert "What the 15 modes mean" in page
    assert page.count("It &lt;haggles&gt;.") == 2  # where it is named, and in the list
    assert all(escape(mode.definition) in page for mode in before.values())
