"""GSM-Plus (Li et al. 2024, arXiv 2402.19255): eight variations of each problem of GSM8K.

Published as `qintongli/GSM-Plus` on the hub, with the splits `test` (10,552 rows) and `testmini`
(2,400), and as files: rows with the fields `question`, `solution`, `answer`, `perturbation_type`,
`seed_question`, `seed_solution` and `seed_answer`; or one table from seed question to its
`perturbation_questions`. Of the variation `critical thinking` the answer is the text `None`: the
problem does not say enough. Answers are rounded where no short decimal is exact.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from rolecraft.environments.task import Task
from rolecraft.errors import UnknownName
from rolecraft.experiments.rows import DatasetError, drawn, field, read
from rolecraft.roles.ready.answers import exact_value, is_none

HUB = "qintongli/GSM-Plus"
PERTURBATIONS = (
    "numerical substitution",
    "digit expansion",
    "integer-decimal-fraction conversion",
    "adding operation",
    "reversing operation",
    "problem understanding",
    "distraction insertion",
    "critical thinking",
)
"""The values of `perturbation_type`."""
ASKED = (
    "Give one number, in the unit that is asked for. If the problem does not say enough to be "
    "answered, the answer is None."
)


def gsm_plus(
    source: str | Path = HUB,
    n: int | None = None,
    seed: int = 0,
    *,
    split: str = "test",
    perturbations: Sequence[str] = PERTURBATIONS,
    on_skip: Callable[[DatasetError], None] | None = None,
) -> list[Task]:
    """The problems in a file, or of a data set on the hub, as tasks of maths chat.

    `n` are drawn by `seed`, in the order of the data set; all unless given. `perturbations` are
    the variations to draw from. `task.data` has the `answer`, to how many `decimals` it was
    rounded if it is a decimal, the `perturbation_type`, and the `row`. A row whose answer is no one
    number is left out, and `on_skip` is told. Raises what `read` raises.
    """
    for kind in perturbations:
        if kind not in PERTURBATIONS:
            raise UnknownName("Perturbation", kind, PERTURBATIONS)
    rows = _flat(read(source, split=split))
    tasks = []
    for number, row in enumerate(rows, 1):
        if field(row, "perturbation_type", source, number) in perturbations:
            task = _task(row, number, source)
            if isinstance(task, Task):
                tasks.append(task)
            elif on_skip is not None:
                on_skip(task)
    return drawn(tasks, n, seed)


def _flat(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows of the nested file become those of the flat one."""
    flat: list[dict[str, Any]] = []
    for row in rows:
        varied = row.get("perturbation_questions")
        if not isinstance(varied, dict):
            flat.append(row)
            continue
        for kind, variation in varied.items():
            if isinstance(variation, dict):
                flat.append({**variation, "perturbation_type": kind})
    return flat


def _task(row: dict[str, Any], number: int, source: str | Path) -> Task | DatasetError:
    question = field(row, "question", source, number)
    answer = normal(field(row, "answer", source, number))
    if answer is None:
        return DatasetError(
            f"Row {number} of `{source}` has the answer {row['answer']!r}, which is neither one "
            f"number nor `None`: left out."
        )
    kind = field(row, "perturbation_type", source, number)
    data: dict[str, Any] = {"answer": answer, "perturbation_type": kind, "row": number}
    if (found := re.search(r"\.(\d+)$", answer)) is not None:
        data["decimals"] = len(found[1])
    return Task(f"gsm-plus-{number}", f"{question.strip()} {ASKED}", data, seed=number)


def normal(answer: str) -> str | None:
    """An answer as published in one form: `$1,200.` is `1200`; None for what is no number."""
    plain = answer.strip()
    if is_none(plain):
        return "None"
    if "####" in plain:
        plain = plain.rpartition("####")[2].strip()
    value = exact_value(plain)
    if value is None:
        return None
    decimal = re.search(r"-?\d[\d,]*\.\d+", plain)
    if decimal is not None and not re.search(r"[/%e]", plain):
        return decimal[0].replace(",", "")
    return str(value)
