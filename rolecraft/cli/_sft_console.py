"""How a fine-tuning is told on a terminal, in a log file, and as JSON lines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.text import Text

from rolecraft.cli._output import Output, printable
from rolecraft.cli._sft_table import StepTable, is_shown, summary_rows
from rolecraft.training.sft.listener import Listener

if TYPE_CHECKING:
    from rolecraft.training.sft.log import LogLine
    from rolecraft.training.sft.summary import Trained

OPEN, CLOSE = "⟦", "⟧"
"""Around what is trained on, where there are no colours."""
_SHOWN = 3000
"""Characters of a sample."""
_LOG_WIDTH = 120
"""Of a table that goes to no terminal."""


class SftConsole(Listener):
    def __init__(self, output: Output) -> None:
        self._output = output
        self._role: str | None = None
        self._tenth = 0
        """Of the data that was told of."""
        width = output.page.width if output.page.is_terminal else _LOG_WIDTH
        self._table = StepTable(width)

    def note(self, text: str) -> None:
        self._output.note(text)

    def warn(self, text: str) -> None:
        self._output.warn(text)

    def preparing(self, done: int, samples: int) -> None:
        tenth = 10 * done // max(samples, 1)
        if tenth > self._tenth:
            self._tenth = tenth
            self._output.note(f"Data: {done:,} of {samples:,} samples are tokens.")

    def sample(self, pieces: Sequence[tuple[str, bool]]) -> None:
        self._tenth = 0
        page = self._output.page
        plain = not page.is_terminal or page.no_color
        how = f"between {OPEN} and {CLOSE}" if plain else "green and underlined"
        self._output.say(f"The first sample; what is trained on is {how}:", style="bold")
        page.print(marked(pieces, plain=plain), soft_wrap=True)

    def begins(self, role: str | None, steps: int, after: int) -> None:
        self._role = role
        whose = "" if role is None else f" of {role}"
        onwards = f", {after:,} of which are done" if after else ""
        self._output.say(f"Training{whose}: {steps:,} steps{onwards}.", style="bold")
        self._output.say(self._table.head(), style="bold")

    def line(self, line: LogLine) -> None:
        role = {} if self._role is None else {"role": self._role}
        self._output.result({"event": "step", **role, **line.record()})
        if is_shown(line):
            self._output.say(self._table.row(line))

    def ended(self, trained: Trained) -> None:
        if trained.summary is None:
            return
        role = {} if trained.role is None else {"role": trained.role}
        about = {"folder": str(trained.folder), **role, **trained.summary.record()}
        self._output.result({"event": "result", **about})
        title = "Trained" if trained.role is None else f"Trained {trained.role}"
        self._output.say(title, style="bold")
        for name, value in summary_rows(trained.summary):
            self._output.say(f"  {name:<12}{value}")


def marked(pieces: Sequence[tuple[str, bool]], *, plain: bool) -> Text:
    """The text of a sample, with what is trained on marked; cut where it is long."""
    text, room = Text(), _SHOWN
    for piece, trained in pieces:
        shown = printable(piece[:room])
        room -= len(shown)
        if trained and plain:
            text.append(f"{OPEN}{shown}{CLOSE}")
        else:
            text.append(shown, "green underline" if trained else "")
        if room <= 0:
            break
    left = sum(len(piece) for piece, _ in pieces) - _SHOWN
    if left > 0:
        text.append(f"\n… and {left:,} more characters", "dim")
    return text
