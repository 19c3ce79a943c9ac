"""How a fine-tuning is shown: a table for every width, a sample with its mask, durations."""

from __future__ import annotations

import pytest
from rich.console import Console

from rolecraft.cli._sft_console import marked
from rolecraft.cli._sft_table import COLUMNS, StepTable, duration, is_shown
from rolecraft.training.sft.log import LogLine

LINE = LogLine(
    step=200,
    steps=27974,
    epoch=0.01,
    loss=1.8234,
    perplexity=6.1929,
    eval_loss=1.7921,
    eval_perplexity=6.0021,
    learning_rate=1e-5,
    grad_norm=0.71,
    tokens=900_000,
    flops=5.8e15,
    tokens_per_second=12_345.6,
    samples_per_second=5.784,
    seconds_left=77_385.0,
)


@pytest.mark.parametrize("width", [20, 30, 40, 60, 80, 100, 120, 200])
def test_rows_fit_the_terminal_and_stand_below_their_heads(width: int) -> None:
    table = StepTable(width)
    head, row = table.head(), table.row(LINE)
    assert len(head) == len(row) <= width
    assert "200/27974" in row


def test_narrow_terminals_keep_what_tells_most() -> None:
    assert [column.head for column in StepTable(40).columns] == ["step", "loss", "eval"]
    assert StepTable(200).columns == list(COLUMNS)


def test_what_was_not_measured_is_blank_and_what_is_no_number_says_so() -> None:
    blank = StepTable(40).row(LogLine(step=1, steps=9, epoch=0.1))
    assert blank.split() == ["1/9"]
    assert "nan" in StepTable(40).row(LogLine(step=1, steps=9, epoch=0.1, loss=float("nan")))


def test_long_runs_show_a_hundred_steps_and_every_evaluation() -> None:
    shown = [
        step
        for step in range(1, 20_001)
        if is_shown(
            LogLine(step=step, steps=20_000, epoch=0.0, eval_loss=1 if step == 777 else None)
        )
    ]
    assert len(shown) == 102
    assert {1, 200, 777, 20_000} <= set(shown)


def test_durations_are_read_at_a_glance() -> None:
    assert duration(0) == "0:00:00"
    assert duration(77_385) == "21:29:45"
    assert duration(100_000) == "1d 3:46:40"


def test_what_is_trained_is_marked_without_colours_too() -> None:
    pieces = [("user: 2+2?\nassistant: ", False), ("4\x1b[31m", True), ("\n", False)]
    assert marked(pieces, plain=True).plain == "user: 2+2?\nassistant: ⟦4�[31m⟧\n"
    console = Console(force_terminal=True, color_system="standard", width=80)
    with console.capture() as capture:
        console.print(marked(pieces, plain=False))
    assert "\x1b[4;32m4" in capture.get()


def test_a_long_sample_is_cut_and_says_so() -> None:
    text = marked([("a" * 10_000, True)], plain=True).plain
    assert len(text) < 3100
    assert text.endswith("… and 7,000 more characters")
