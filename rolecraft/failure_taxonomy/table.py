"""Labels as one wide table: a row for each trace and annotator, a column for each mode.

1 is present, 0 absent, an empty cell `unknown` or not asked: `pandas.read_csv` reads numbers with
gaps. A text that a spreadsheet would take for a formula gets an apostrophe in front, because names
of traces and roles are other people's.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from pathlib import Path

from rolecraft.failure_taxonomy.labels import Labels
from rolecraft.failure_taxonomy.modes import MODES

_CELLS = {"present": "1", "absent": "0"}


def wide_table(labels: Iterable[Labels]) -> tuple[list[str], list[list[str]]]:
    """The header and the rows: trace, annotator, the modes, whom they blame, the outcome."""
    header = ["trace", "annotator", *MODES, "decisive_role", "decisive_step", "done"]
    rows = []
    for row in labels:
        blame = row.decisive
        rows.append(
            [
                row.trace,
                row.annotator,
                *(_CELLS.get(row.verdict(mode) or "", "") for mode in MODES),
                "" if blame is None else blame.role,
                "" if blame is None or blame.step is None else str(blame.step),
                "" if row.outcome is None else str(int(row.outcome)),
            ]
        )
    return header, rows


def write_table(labels: Iterable[Labels], path: Path | str) -> Path:
    """Write the table as a CSV file, UTF-8, making its folder if need be; the path."""
    header, rows = wide_table(labels)
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_text(csv_text([header, *rows]), "utf-8", "backslashreplace", newline="")
    return Path(path)


def csv_text(rows: Iterable[Sequence[str]]) -> str:
    """Rows as CSV in which no cell is a formula."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerows([_harmless(cell) for cell in row] for row in rows)
    return text.getvalue()


def _harmless(cell: str) -> str:
    return f"'{cell}" if cell.startswith(("=", "+", "-", "@", "\t", "\r")) else cell
