"""Which code systems the MAST-Data files use, which differ from part to part.

`MAD_full_dataset.json`: the judge's labels (`mast_annotation`), so the codes of the judge's prompt.
`MAD_human_labelled_dataset.json`: by round, see `system_for_mad_record`.
"""

from __future__ import annotations

from collections.abc import Iterable

from rolecraft.errors import UsageError
from rolecraft.failure_taxonomy.codes.crosswalk import (
    MAD_HUMAN_FINAL,
    MAD_ROUND_1,
    MAD_ROUNDS_2_3,
    MAST_NOTEBOOK,
    MAST_V3,
)
from rolecraft.failure_taxonomy.codes.system import CodeSystem, folded

MAD_FULL = MAST_NOTEBOOK
"""The codes of `mast_annotation` in the judge-labelled file: 3.2 absent, 3.3 weak."""

_BY_ROUND = {
    "round 1": MAD_ROUND_1,
    "round 2": MAD_ROUNDS_2_3,
    "round 3": MAD_ROUNDS_2_3,
    "generlazability": MAD_HUMAN_FINAL,  # as it is spelt in the file
    "generalizability": MAD_HUMAN_FINAL,
}


def system_for_mad_record(round: str, texts: Iterable[str]) -> CodeSystem:  # noqa: A002
    """The code system of a record of the human-labelled file.

    `round` is its field of that name, `texts` are the "failure mode" texts of its annotations.
    The texts are checked against the system, so that a record under a wrong or new name of a
    round is refused instead of read in the wrong codes: raises `UsageError`. A final round whose
    texts have no definitions has only the names to go by: `MAST_V3`.
    """
    texts = list(texts)
    system = _BY_ROUND.get(folded(round))
    if system is None:
        raise UsageError(
            f"The round {round!r} of the human-labelled MAST data is not known. Known: "
            f"{', '.join(map(repr, _BY_ROUND))}. Read its codes with a `CodeSystem` of your own."
        )
    if system is MAD_HUMAN_FINAL and not any("lack of" in text.casefold() for text in texts):
        system = MAST_V3
    for text in texts:
        found = system.resolve(text)
        if found.problem:
            raise UsageError(f"The record does not fit its round {round!r}: {found.problem}")
    return system
