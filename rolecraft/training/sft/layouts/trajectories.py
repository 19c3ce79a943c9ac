"""Our own trajectories: one sample for each conversation that a role had with its model.

Invariant: trained are exactly the answers that the model gave in the run; where the journal has
their tokens, exactly the tokens that it sampled.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from rolecraft.errors import TraceError
from rolecraft.failure_taxonomy.goals import Outcome
from rolecraft.rollouts.batch.conversations import Lost, conversations
from rolecraft.training.policy.sequences import BrokenSequence, training_sequences
from rolecraft.training.sft.samples import BadRow, Facts, Recorded, Sample, TokenSample
from rolecraft.trajectories.events import Event
from rolecraft.trajectories.findings import load_findings
from rolecraft.trajectories.jsonl import load
from rolecraft.trajectories.trajectory import Trajectory

NAME = "trajectory"


def read_journal(path: Path, reward: float | None = None) -> Iterator[Sample | TokenSample]:
    """The samples of a journal. `reward` is that of the run, where something beside it says.

    Raises `BadRow` for a journal from which nothing can be learned faithfully: broken lines in the
    middle, answers without their place. A torn last line, as a killed process leaves it, is none.
    """
    problems: list[str] = []
    try:
        trajectory = load(path)
        findings = load_findings(path, problems=problems)
        problems += [each for each in trajectory.problems if ": cut off after " not in each]
        if problems:
            raise BadRow(f"is no whole record: {problems[0]}")
        talks = conversations(trajectory)
        training_sequences(trajectory)  # whether their tokens fit together
    except (TraceError, Lost, BrokenSequence) as error:
        raise BadRow(f"cannot be used: {error}") from error
    if reward is None:
        reward = measured_reward(trajectory)
    spoken = _events(trajectory)
    for talk in talks:
        failures = {
            found.mode
            for found in findings
            if found.verdict == "present" and found.role in ("", talk.role)
        }
        facts = Facts(talk.role, reward, True, trajectory.stop_reason, tuple(sorted(failures)))
        whole = Sample(turns=talk.turns, tools=talk.tools, facts=facts)
        events = spoken[talk.session]
        if any(event.tokens is None for event in events):
            yield whole
        else:
            yield TokenSample(sequences=_recorded(events), otherwise=whole)


def measured_reward(trajectory: Trajectory) -> float | None:
    """1 where the environment measured that the task was done, 0 where not; None: it says neither.

    As in evaluations, the header names the measurement (`Outcome`).
    """
    outcome = Outcome.of(trajectory.about)
    measured = {signal.name: signal.value for signal in trajectory.signals}
    if outcome.signal in measured:
        return float(outcome.bounds.hold(measured[outcome.signal]) is True)
    return None


def _events(trajectory: Trajectory) -> dict[str, list[Event]]:
    """The model calls of each conversation, which are named as `conversations` names them."""
    found: dict[str, list[Event]] = {}
    for number, event in enumerate(trajectory.of("model_call"), 1):
        session = event.data.get("session") or f"{event.role}/{number}"
        found.setdefault(session, []).append(event)
    return found


def _recorded(events: list[Event]) -> list[Recorded]:
    """The token sequences: a template that rewrites turns begins new ones."""
    made: dict[str, Recorded] = {}
    for event in events:
        span = event.tokens
        assert span is not None
        ids, trained, said = made.setdefault(span.session, Recorded([], [], []))
        begins = len(ids) + len(span.given)
        ids += [*span.given, *span.sampled]
        trained += [False] * len(span.given) + [True] * len(span.sampled)
        texts = [event.content.strip(), *(c["name"] for c in event.data.get("tool_calls", ()))]
        said += [(begins, len(ids), text) for text in texts if text]
    return list(made.values())
