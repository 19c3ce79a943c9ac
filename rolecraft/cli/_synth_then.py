"""Which command of `rolecraft synth` comes after one that adds candidates."""

from __future__ import annotations

from pathlib import Path

from rolecraft.cli._output import Output


def then_validate(out: Path, output: Output) -> None:
    """Name `validate` where a candidate has no verdict yet, else what comes after it.

    Nothing comes after nothing.
    """
    from rolecraft.synthesis.candidates import Candidate
    from rolecraft.synthesis.folder import SynthesisFolder
    from rolecraft.synthesis.ledger import LedgerView
    from rolecraft.synthesis.verdicts import Verdict

    folder = SynthesisFolder(out)
    with (
        LedgerView(folder.candidates, Candidate, key=lambda each: each.id) as candidates,
        LedgerView(folder.verdicts, Verdict, key=lambda each: each.candidate) as verdicts,
    ):
        if any(each.id not in verdicts for each in candidates):
            output.then("rolecraft", "synth", "validate", out)
        elif any(each.is_valid for each in verdicts):
            output.then("rolecraft", "synth", "describe", out)
