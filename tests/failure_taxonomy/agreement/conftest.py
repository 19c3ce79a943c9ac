"""Labels in one line each."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from rolecraft.failure_taxonomy.labels import Blame, Labels
from rolecraft.trajectories import FailureFinding

VERDICTS = {"+": "present", "-": "absent", "?": "unknown"}


@pytest.fixture
def says() -> Callable[..., Labels]:
    """`says("ada", "1.json", repetition="+", reset="-")`; `?` is unknown, what is left out unasked.

    `("+", 0.8)` has a confidence; `at=("coder", 3)` blames.
    """

    def make(
        annotator: str, trace: str, at: tuple[str, int | None] | None = None, **modes: object
    ) -> Labels:
        findings = []
        for mode, said in modes.items():
            sign, confidence = said if isinstance(said, tuple) else (said, None)
            verdict = VERDICTS[str(sign)]
            findings.append(
                FailureFinding(mode.replace("__", "."), verdict, confidence=confidence)  # type: ignore[arg-type]
            )
        return Labels(
            trace=trace,
            annotator=annotator,
            findings=tuple(findings),
            decisive=None if at is None else Blame(*at),
        )

    return make
