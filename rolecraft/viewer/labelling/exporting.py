"""What was labelled, as files: labels that `rolecraft agreement` reads, and one wide table.

Only rounds that their annotator has finished are exported: a half-read trace is no label.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from rolecraft.errors import JournalError
from rolecraft.failure_taxonomy.labels import Labels
from rolecraft.failure_taxonomy.table import csv_text, wide_table
from rolecraft.viewer.labelling.desk import Desk
from rolecraft.viewer.labelling.sheet import MODE, Sheet

TABLE = "labels.csv"
GOLD = "gold"
"""The annotator of adjudicated labels."""


def exports(desk: Desk, *, seen_by: str | None = None) -> dict[str, str]:
    """The text of each file by its name.

    `seen_by` names an annotator, who gets others' labels of the traces only that they have
    compared.

    `round-1.jsonl` has the blind labels of everyone, `round-2.jsonl` those after the discussion;
    `round-1.NAME.jsonl` those of one annotator, NAME as in the folder; `gold.jsonl` what was
    adjudicated; `labels.csv` all of them, a row a trace and annotator and round.
    """
    files: dict[str, list[Labels]] = {}
    for annotator, number, _, labels in _finished(desk, seen_by):
        for name in (f"round-{number}.jsonl", f"round-{number}.{desk.file_of(annotator)}"):
            files.setdefault(name, []).append(labels)
    if gold := _gold(desk, seen_by):
        files["gold.jsonl"] = gold
    written = {
        name: "".join(json.dumps(row.to_dict(), ensure_ascii=False) + "\n" for row in rows)
        for name, rows in sorted(files.items())
    }
    return written | {TABLE: _table(desk, seen_by)}


def export_folder(desk: Desk, folder: Path | str) -> list[Path]:
    """Write the files into a folder; their paths. Raises `JournalError` if the disk refuses.

    Writes nothing, not even the folder, where nobody has finished a round or decided anything.
    """
    folder = Path(folder)
    paths: list[Path] = []
    files = exports(desk)
    if set(files) == {TABLE}:
        return paths
    for name, text in files.items():
        path = folder / name
        try:
            folder.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8", errors="backslashreplace", newline="")
        except OSError as error:
            reason = f"cannot be written: {error.strerror or error}"
            raise JournalError(path, reason) from error
        paths.append(path)
    return paths


def labels_of(desk: Desk, annotator: str, key: str, sheet: Sheet) -> Labels:
    """A sheet as labels. Findings say whether their author had seen suggestions."""
    source = "person.saw_suggestions" if sheet.saw else "person"
    findings = sheet.findings
    for finding in findings:
        finding.source = source
    return Labels(
        trace=desk.trace(key).name,
        annotator=annotator,
        findings=tuple(findings),
        decisive=sheet.decisive,
        outcome=sheet.outcome,
        note=sheet.note,
    )


def gold_labels(desk: Desk, key: str) -> Labels | None:
    """What was adjudicated about a trace, with who decided and why; None if nothing was."""
    sheet = desk.gold_sheet(key)
    if not sheet.values:
        return None
    flawed = desk.gold_flaws(key)
    findings = [finding for finding in sheet.findings if finding.mode not in flawed]
    for finding in findings:
        field = MODE + finding.mode
        finding.source = f"adjudicated by {sheet.authors[field]}"
        finding.reason = sheet.values[field].get("why") or finding.reason
    return Labels(
        trace=desk.trace(key).name,
        annotator=GOLD,
        findings=tuple(findings),
        decisive=sheet.decisive,
        outcome=sheet.outcome,
        note=sheet.note,
    )


def _finished(desk: Desk, seen_by: str | None) -> Iterator[tuple[str, int, Sheet, Labels]]:
    for annotator in desk.annotators:
        for key in desk.traces:
            if annotator != seen_by and not _may_see(desk, seen_by, key):
                continue
            latest = desk.sheet(annotator, key).round
            for number in range(1, latest + 1):
                sheet = desk.finished(annotator, key, in_round=number)
                if sheet is not None:
                    yield annotator, number, sheet, labels_of(desk, annotator, key, sheet)


def _may_see(desk: Desk, seen_by: str | None, key: str) -> bool:
    return seen_by is None or desk.has_looked(seen_by, key)


def _gold(desk: Desk, seen_by: str | None) -> list[Labels]:
    decided = (gold_labels(desk, key) for key in desk.traces if _may_see(desk, seen_by, key))
    return [labels for labels in decided if labels is not None]


def _table(desk: Desk, seen_by: str | None) -> str:
    """The wide table of labels, with the round, whether suggestions were seen, and the note."""
    rows = [
        (labels, str(number), str(int(bool(sheet.saw))))
        for _, number, sheet, labels in _finished(desk, seen_by)
    ]
    rows += [(labels, "", "") for labels in _gold(desk, seen_by)]
    rows.sort(key=lambda row: (row[0].trace, row[1] == "", row[1]))
    header, cells = wide_table(labels for labels, _, _ in rows)
    return csv_text(
        [
            [*header[:2], "round", "saw_suggestions", *header[2:], "note"],
            *(
                [*line[:2], number, saw, *line[2:], labels.note]
                for line, (labels, number, saw) in zip(cells, rows, strict=True)
            ),
        ]
    )
