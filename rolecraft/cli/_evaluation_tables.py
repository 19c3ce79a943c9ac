"""The tables of an evaluation on a terminal: no cell is broken, however narrow it is.

Where a table is too wide, what is equal in all rows is said once, rows have letters for names, and
what still does not fit comes in a table of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from string import ascii_uppercase
from typing import TYPE_CHECKING

from rich.cells import cell_len

from rolecraft.experiments import evaluation_page as words
from rolecraft.experiments.players import OWN

if TYPE_CHECKING:
    from rolecraft.cli._output import Output
    from rolecraft.experiments.evaluation import Evaluation

_MEASURED = 4
"""Who, tasks, runs and the measure: so many columns come first, and the first and last stay."""


@dataclass(frozen=True, slots=True)
class Shown:
    """A table, and what is said below it. Columns from `numeric` on are figures."""

    title: str
    head: list[str]
    rows: list[list[str]]
    numeric: int = 1
    below: list[str] = field(default_factory=list)

    @property
    def width(self) -> int:
        """Columns of a terminal that it takes, with the spaces between its own."""
        return sum(_widest(column) + 3 for column in zip(self.head, *self.rows, strict=True)) + 1


def show_tables(found: Evaluation, output: Output) -> None:
    """Print the tables of an evaluation as they fit."""
    tables = _tables(found)
    width = output.page.width
    if output.page.is_terminal and any(each.width > width for each in tables):
        tables = narrow(tables, [row.name for row in found.rows], width)
    for each in tables:
        output.table(each.title, each.head, each.rows, numeric=each.numeric)
        for text in each.below:
            output.say(text)


def _tables(found: Evaluation) -> list[Shown]:
    tables = [
        Shown("Evaluation", words.head(found), [words.cells(row, found) for row in found.rows])
    ]
    if found.contrasts:
        rows = [words.contrast_cells(each, found) for each in found.contrasts]
        tables.append(Shown("Differences", [*words.CONTRASTS], rows, 2))
    if ended := words.stop_rows(found):
        tables.append(Shown("How runs ended", words.stop_head(found), ended))
    if found.failures and (modes := words.failure_rows(found)):
        tables.append(Shown("Failures", words.failure_head(found), modes))
    return tables


def narrow(tables: Sequence[Shown], names: Sequence[str], width: int) -> list[Shown]:
    """The tables in `width` columns, with letters for `names`; the first says which is which."""
    letters = {name: _letter(at) for at, name in enumerate(names)}
    first, *others = tables
    shared = _shared_model(names)
    told = [f"All with {_whom(shared)}."] if shared else []
    who = [f"{letters[name]}  {name.removesuffix(f'@{shared}')}" for name in names]
    if max(map(cell_len, who)) > width // 2:
        told = [f"{letter}: {name}" for name, letter in letters.items()]
        who = [*letters.values()]
    rows = [[short, *row[1:]] for short, row in zip(who, first.rows, strict=True)]
    said_once, first = _said_once(Shown(first.title, first.head, rows, first.numeric))
    first.below.extend([*said_once, *told])
    found = _in_pieces(first, width)
    for each in others:
        head = [letters.get(cell, cell) for cell in each.head]
        rows = [[letters.get(cell, cell) for cell in row] for row in each.rows]
        found += _in_pieces(Shown(each.title, head, rows, each.numeric), width)
    return found


def _said_once(table: Shown) -> tuple[list[str], Shown]:
    """The columns in which all rows are alike, in words, and the table without them."""
    columns = [*zip(*table.rows, strict=True)]
    alike = [
        at
        for at, column in enumerate(columns)
        if len(set(column)) == 1 and len(column) > 1 and at not in (0, _MEASURED - 1)
    ]
    told = "; ".join(f"{table.head[at]} {columns[at][0]}" for at in alike if columns[at][0])
    said = [f"The same for all: {told}."] if told else []
    again = [at for at in range(_MEASURED, len(columns)) if columns[at] == columns[_MEASURED - 1]]
    said += [f"{table.head[at]}: as {table.head[_MEASURED - 1]}." for at in again]
    head, rows = _only(table, [at for at in range(len(columns)) if at not in {*alike, *again}])
    return said, Shown(table.title, head, rows, table.numeric)


def _in_pieces(table: Shown, width: int) -> list[Shown]:
    """A table as several, each with the columns that name a row, so that each fits."""
    names = [*range(min(table.numeric, len(table.head)))]
    pieces: list[list[int]] = [[*names]]
    for at in range(len(names), len(table.head)):
        head, rows = _only(table, [*pieces[-1], at])
        if Shown("", head, rows).width > width and len(pieces[-1]) > len(names):
            pieces.append([*names])
        pieces[-1].append(at)
    made = [
        Shown(table.title if at == 0 else f"{table.title}, further columns", *_only(table, columns))
        for at, columns in enumerate(pieces)
    ]
    made = [Shown(each.title, each.head, each.rows, table.numeric) for each in made]
    made[-1].below.extend(table.below)
    return made


def _only(table: Shown, columns: Sequence[int]) -> tuple[list[str], list[list[str]]]:
    rows = [[row[at] for at in columns] for row in table.rows]
    return [table.head[at] for at in columns], rows


def _shared_model(names: Sequence[str]) -> str:
    """The label of the model that all have; empty where they differ."""
    labels = {name.rpartition("@")[2] for name in names}
    return labels.pop() if len(labels) == 1 and len(names) > 1 else ""


def _whom(label: str) -> str:
    return f"the models that their roles have (@{OWN})" if label == OWN else label


def _letter(at: int) -> str:
    """A, B, …, Z, A1, B1, …"""
    again, at = divmod(at, len(ascii_uppercase))
    return ascii_uppercase[at] + (str(again) if again else "")


def _widest(cells: Sequence[str]) -> int:
    return max(map(cell_len, cells))
