"""Shaping by failure modes: bounded, verified, and never a reason to fail with fewer failures.

`1 / (1 + failures)` as a reward was tried, and hacked within days: the team got rid of its
verifier, a refusal has no failures at all, and a judge that was confused finds none. So here

- only success earns: the bonus is at most `most`, times what the base reward paid, from 0 to 1;
- a mode earns its part of the bonus where it is *shown* to be absent. `present` and `unknown` earn
  the same, nothing: to hide a failure, or to break the detector, pays nothing;
- a weak check is no worse than none: `verification.weak` earns nothing unless somebody checked;
- what a judge thinks counts for nothing, and a finding without its evidence is `unknown`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rolecraft.errors import UsageError
from rolecraft.rewards.reward import Composed, Reward, added, shares_of
from rolecraft.rewards.signals import Signals, is_opinion
from rolecraft.trajectories.events import FailureFinding
from rolecraft.trajectories.trajectory import Trajectory

if TYPE_CHECKING:
    from rolecraft.failure_taxonomy import Detector

SHARE = "failures"
"""The name of its share."""
_NEEDS = {"verification.weak": "verification.absent"}
"""Modes that can only be shown to be absent where the other one is."""


@dataclass(frozen=True, slots=True)
class FailureShaping(Composed):
    """`base`, and for a run that did well up to `most` more for failure modes that it has not.

    The modes are looked for by detectors in the record itself, so that the reward stays a function
    of the log. `modes` are concept ids; unless given, all that the detectors can decide. With
    `from_findings` what is said in stored findings counts instead, by anybody but a judge.
    """

    base: Reward
    most: float = 0.1
    modes: tuple[str, ...] = ()
    detectors: Sequence[Detector] | None = None
    from_findings: bool = False

    def __post_init__(self) -> None:
        if not 0 <= self.most <= 1:
            raise UsageError(
                f"`FailureShaping(most={self.most!r})` wants a share of the base reward, from 0 to "
                f"1: what shapes a reward may not outweigh it."
            )
        if not self.modes and self.detectors is not None and not self.detectors:
            raise UsageError(
                "`FailureShaping(detectors=[])` looks for nothing: give one, or modes."
            )

    @property
    def parts(self) -> tuple[Reward, ...]:
        return (self.base,)

    @property
    def label(self) -> str:
        return self.base.label

    def given(self, signals: Signals, role: str | None) -> dict[str, float]:
        shares = shares_of(self.base, signals, role)
        worth = min(1.0, max(0.0, sum(shares.values())))
        part = signals.once(self, lambda: self._clean_part(signals)) if worth else 0.0
        evidence = signals.evidence
        signals.note(SHARE, [name for share in shares for name in evidence.get(share, ())])
        return added(shares, {SHARE: self.most * worth * part})

    def _clean_part(self, signals: Signals) -> float:
        """Which part of the modes that are looked for is shown to be absent."""
        from rolecraft.failure_taxonomy import DETECTORS, get_mode

        if signals.trajectory is None:
            raise UsageError(
                "`FailureShaping` looks for failures in the record: score a whole trajectory."
            )
        detectors = DETECTORS if self.detectors is None else self.detectors
        modes = self.modes or tuple(dict.fromkeys(m for each in detectors for m in each.modes))
        for mode in modes:
            get_mode(mode)
        if self.from_findings:
            said = verified_findings(signals.trajectory, signals.findings)
        else:
            said = found(signals.trajectory, detectors)
        verdicts = {mode: {each.verdict for each in said if each.mode == mode} for mode in modes}
        for mode in _NEEDS.values():
            verdicts.setdefault(mode, {each.verdict for each in said if each.mode == mode})
        shown = {mode for mode, verdict in verdicts.items() if verdict == {"absent"}}
        return sum(m in shown and _NEEDS.get(m, m) in shown for m in modes) / len(modes)


def found(trajectory: Trajectory, detectors: Iterable[Detector]) -> list[FailureFinding]:
    """What detectors find in a record and can show; the same each time."""
    from rolecraft.failure_taxonomy.view import TraceView

    view = TraceView(trajectory)
    said = [finding for detector in detectors for finding in detector.judge(view)]
    return _verified(view, said)


def verified_findings(
    trajectory: Trajectory, findings: Iterable[FailureFinding]
) -> list[FailureFinding]:
    """Those of the findings that are no judge's opinion and whose evidence is in the record.

    A `present` whose evidence is not there is `unknown`.
    """
    from rolecraft.failure_taxonomy.view import TraceView

    return _verified(TraceView(trajectory), [f for f in findings if not is_opinion(f.source)])


def _verified(view: object, findings: Iterable[FailureFinding]) -> list[FailureFinding]:
    from rolecraft.failure_taxonomy.evidence import verified
    from rolecraft.failure_taxonomy.view import TraceView

    assert isinstance(view, TraceView)
    kept = []
    for finding in findings:
        fact = finding.source == "environment"
        held = verified(finding, view.by_seq, fact=fact, silent=view.silent)
        if isinstance(held, str):
            held = FailureFinding(finding.mode, "unknown", source=finding.source, reason=held)
        kept.append(held)
    return kept
