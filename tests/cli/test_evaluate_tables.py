"""The tables of `rolecraft evaluate` on a terminal: every line fits, and every figure is whole."""

from __future__ import annotations

import io

import pytest
from rich.cells import cell_len

from rolecraft.cli._evaluation_tables import Shown, narrow
from rolecraft.cli._output import Output

HEAD = ["who", "tasks", "runs", "success, % [95 %]", "pass@1, %", "pass@4, %", "calls", "tokens",
        "$", "seconds"]  # fmt: skip
CONTRASTS = ["compared", "with", "tasks", "change", "95 %", "better", "worse", "p", "Holm"]
MODEL = "openai/gpt-4o-mini"


def tables(names: list[str]) -> list[Shown]:
    rows = [
        [name, "50", "200", f"8{at}.5 [71.0, 92.9]", f"7{at}.5 [71.0, 92.9]",
         f"9{at}.0 [83.8, 97.9]", f"{at}.0", f"{at}3456", "unknown", f"12.3{at}"]
        for at, name in enumerate(names)
    ]  # fmt: skip
    contrasts = [[names[0], each, "50", "+10.0", "-2.0 to +22.0", "12", "7", "0.0123", "0.0369"]
                 for each in names[1:]]  # fmt: skip
    return [Shown("Evaluation", HEAD, rows), Shown("Differences", CONTRASTS, contrasts, 2)]


NAMES = {
    "one model": [f"{who}@{MODEL}" for who in ("maths_team", "maths_chat", "best of 3 maths_chat")],
    "two models": [f"maths_team@{model}" for model in (MODEL, "openai/gpt-4o")],
    "one row": [f"maths_team@{MODEL}"],
    "long": [f"team@transformers:/models/{'x' * 80}/{at}" for at in range(3)],
}


@pytest.mark.parametrize("width", [80, 120])
@pytest.mark.parametrize("names", NAMES.values(), ids=NAMES)
def test_no_line_is_wider_than_the_terminal_and_no_cell_is_broken(names, width):
    before = tables(names)
    output = Output(json=False)
    output.page.file = io.StringIO()
    output.page._force_terminal = True
    output.page.width = width
    found = narrow(before, names, width)
    for each in found:
        output.table(each.title, each.head, each.rows, numeric=each.numeric)
    lines = output.page.file.getvalue().splitlines()
    assert max(map(cell_len, lines)) <= width
    printed = "\n".join([*lines, *(text for each in found for text in each.below)])
    for table in before:
        for row in table.rows:
            assert all(cell in printed for cell in row if cell not in names)
    for name in names:
        assert name.removesuffix(f"@{MODEL}") in printed  # the model that all share is said once
    assert MODEL not in names[0] or MODEL in printed


def test_what_is_equal_is_said_once_and_letters_stand_for_names():
    first, *others = narrow(tables(NAMES["one model"]), NAMES["one model"], 80)
    assert first.head[:2] == ["who", "success, % [95 %]"]
    assert first.rows[0][0] == "A  maths_team"
    below = [text for each in (first, *others) for text in each.below]
    assert "The same for all: tasks 50; runs 200; $ unknown." in below
    assert f"All with {MODEL}." in below
    contrasts = others[-1]
    assert [row[:2] for row in contrasts.rows] == [["A", "B"], ["A", "C"]]


def test_a_column_that_says_what_the_measure_says_is_said_in_words():
    table, *_ = tables(NAMES["one model"])
    for row in table.rows:
        row[4] = row[3]
    found = narrow([table], NAMES["one model"], 80)
    assert all("pass@1, %" not in each.head for each in found)
    assert "pass@1, %: as success, % [95 %]." in found[-1].below
