"""How the doctor's findings are told on a terminal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.text import Text

from rolecraft.cli._output import Output, printable
from rolecraft.cli._sft_console import CLOSE, OPEN

if TYPE_CHECKING:
    from rolecraft.training.doctor import Finding

WORDS = {"ok": "ok", "warn": "WARN", "fail": "FAIL", "skipped": "skipped"}
_STYLES = {"trained": "green underline", "given": "", "forced": "yellow", "greedy": "cyan"}
_MARKS = {"trained": (OPEN, CLOSE), "given": ("", ""), "forced": ("⟨", "⟩"), "greedy": ("«", "»")}
"""Around a piece where there are no colours."""
_SHOWN = 2000
"""Characters of an episode."""


def tell(found: Sequence[Finding], output: Output) -> None:
    """A table, then each finding in words, and how many there are of each kind."""
    rows = [[each.check, WORDS[each.verdict], each.value, each.limit] for each in found]
    output.table("What was checked", ["check", "verdict", "measured", "limit"], rows, whole=2)
    for each in found:
        output.say(f"{WORDS[each.verdict]}: {each.check}", style="bold")
        output.say(f"  {each.found.rstrip('.')}.")
        if each.advice:
            output.say(f"  What to do: {each.advice}")
        if each.pieces:
            _show(each.pieces, output)
    counts: Counter[str] = Counter(each.verdict for each in found)
    output.say(", ".join(f"{counts[name]} {WORDS[name]}" for name in WORDS if counts[name]))


def _show(pieces: Sequence[tuple[str, str]], output: Output) -> None:
    page = output.page
    plain = not page.is_terminal or page.no_color
    told = "trained is between ⟦ and ⟧, forced ⟨ and ⟩, greedy « and »"
    if not plain:
        told = "trained is green and underlined, forced yellow, greedy cyan"
    output.say(f"  An episode; {told}, and the rest was given:")
    text, room = Text(), _SHOWN
    for piece, kind in pieces:
        shown = printable(piece[:room])
        room -= len(shown)
        opens, closes = _MARKS[kind] if plain else ("", "")
        text.append(f"{opens}{shown}{closes}", "" if plain else _STYLES[kind])
        if room <= 0:
            text.append(" …", "dim")
            break
    page.print(text, soft_wrap=True)
