"""What several annotators say, beside each other: where they agree, how much, and where not."""

from __future__ import annotations

from typing import Any

from rolecraft.failure_taxonomy.agreement.counts import add, kappa
from rolecraft.failure_taxonomy.agreement.raters import by_trace, compared, rater_agreement
from rolecraft.failure_taxonomy.modes import MODES
from rolecraft.viewer.labelling.desk import Desk
from rolecraft.viewer.labelling.exporting import labels_of
from rolecraft.viewer.labelling.sheet import MODE, Sheet


def compare_trace(desk: Desk, annotator: str, key: str) -> dict[str, Any]:
    """The finished labels of everyone about a trace, and what was adjudicated.

    Raises `NotAllowed` for an annotator who has not asked to compare.
    """
    desk.must_have_looked(annotator, key)
    sheets = desk.others(key)
    gold = desk.gold_sheet(key)
    return {
        "annotators": [
            {"name": name, "round": sheet.round, "saw": list(sheet.saw)}
            for name, sheet in sheets.items()
        ],
        "fields": {
            field: {name: sheet.values.get(field) for name, sheet in sheets.items()}
            for field in [*(MODE + mode for mode in MODES), "decisive", "outcome", "note"]
        },
        "disagreements": _disagreements(sheets),
        "gold": {
            "values": gold.values,
            "revs": gold.revs,
            "authors": gold.authors,
            "flaws": {MODE + mode: flaw for mode, flaw in desk.gold_flaws(key).items()},
        },
    }


def _disagreements(sheets: dict[str, Sheet]) -> list[str]:
    """The fields on which not all annotators say the same."""
    found = []
    for mode in MODES:
        verdicts = {_verdict(sheet, mode) for sheet in sheets.values()}
        if len(verdicts) > 1:
            found.append(MODE + mode)
    if len({str(sheet.decisive) for sheet in sheets.values()}) > 1:
        found.append("decisive")
    if len({sheet.outcome for sheet in sheets.values()}) > 1:
        found.append("outcome")
    return found


def _verdict(sheet: Sheet, mode: str) -> str | None:
    verdict: str | None = (sheet.values.get(MODE + mode) or {}).get("verdict")
    return verdict


def compare_all(desk: Desk, annotator: str) -> dict[str, Any]:
    """Agreement over the traces that this annotator has compared and at least two have finished.

    A row of `rounds` for the blind round, and one for each later round that anybody has finished;
    of who made none then, the labels of the round before count.
    """
    keys = [key for key in desk.traces if desk.has_looked(annotator, key)]
    latest = {key: desk.others(key) for key in keys}
    several = {key: sheets for key, sheets in latest.items() if len(sheets) > 1}
    last = max((sheet.round for sheets in latest.values() for sheet in sheets.values()), default=1)
    rounds = (_round(desk, keys, number) for number in range(1, last + 1))
    return {
        "rounds": [row for row in rounds if row is not None],
        "traces": [_summary(desk, key, sheets) for key, sheets in several.items()],
    }


def _round(desk: Desk, keys: list[str], number: int) -> dict[str, Any] | None:
    labels = [
        labels_of(desk, name, key, sheet)
        for key in keys
        for name in desk.annotators
        if (sheet := _standing(desk, name, key, number)) is not None
    ]
    traces = by_trace(labels)
    several = [rows for rows in traces.values() if len(rows) > 1]
    agreed = rater_agreement(traces)
    if agreed is None:
        return None
    names = list(agreed.annotators)
    pair = (names[0], names[1]) if len(names) == 2 else None
    return {
        "round": number,
        "traces": agreed.traces,
        "annotators": names,
        "method": "Cohen's kappa" if pair else "Fleiss' kappa",
        "pooled": agreed.pairs[pair] if pair else agreed.fleiss,
        "rows": [
            {
                "mode": mode,
                "traces": len(several),
                "same": sum(
                    len({row.verdict(mode) for row in rows.values()}) == 1 for rows in several
                ),
                "present": {
                    name: sum(
                        name in rows and rows[name].verdict(mode) == "present" for rows in several
                    )
                    for name in names
                },
                "kappa": kappa(
                    add(compared(rows[pair[0]], rows[pair[1]], mode) for rows in several)
                )
                if pair
                else agreed.by_mode.get(mode),
            }
            for mode in MODES
        ],
    }


def _standing(desk: Desk, name: str, key: str, number: int) -> Sheet | None:
    """What somebody says after round `number`: who made none then still says what they said."""
    sheets = (desk.finished(name, key, in_round=at) for at in range(number, 0, -1))
    return next((sheet for sheet in sheets if sheet is not None), None)


def _summary(desk: Desk, key: str, sheets: dict[str, Sheet]) -> dict[str, Any]:
    gold = desk.gold_sheet(key)
    points = [*(MODE + mode for mode in MODES), "decisive", "outcome"]
    return {
        "key": key,
        "name": desk.trace(key).name,
        "annotators": list(sheets),
        "disagreements": _disagreements(sheets),
        "decided": sum(
            bool((gold.values.get(field) or {}).get("verdict"))
            if field.startswith(MODE)
            else field in gold.values
            for field in points
        ),
        "points": len(points),
    }
