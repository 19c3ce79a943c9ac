"""The checks of what a model answers, that `examine` and `before_training` both make."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

from rolecraft.training.doctor.adapters_served import check_adapter, name_of
from rolecraft.training.doctor.finding import Finding, attempted, failed
from rolecraft.training.doctor.log_prob_gap import NAME as GAP
from rolecraft.training.doctor.log_prob_gap import check_gap
from rolecraft.training.doctor.mask import NAME as MASK
from rolecraft.training.doctor.mask import check_mask
from rolecraft.training.doctor.patient import Patient
from rolecraft.training.doctor.probe import PROBE, ROLE, Probe, sample_probe
from rolecraft.training.policy.sequences import training_sequences
from rolecraft.trajectories.trajectory import Trajectory


async def probed(patient: Patient) -> Probe | Finding:
    """What was sampled for each role with an adapter, or for one; what kept it from that."""
    try:
        return await sample_probe(patient.model, [*patient.adapters] or [ROLE])
    except Exception as error:  # of whatever the model does; that is the finding
        return failed(PROBE, error)


async def of_answers(
    patient: Patient, probe: Probe, played: Sequence[Trajectory] = ()
) -> AsyncIterator[Finding]:
    """Findings on log-probabilities, adapters and mask, of the probe and of what was `played`.

    The mask is that of the first episode, if any was played.
    """
    model = patient.model

    async def gap() -> Finding:
        every = [each for run in (probe.trajectory, *played) for each in training_sequences(run)]
        trained = await model.run(lambda: patient.log_probs(every))
        return check_gap(every, trained, patient.limit, hows=probe.hows)

    async def served(role: str) -> Finding:
        now, folder = model.adapters.current(role), patient.adapters[role]
        sequences = training_sequences(probe.trajectory)
        return await model.run(lambda: check_adapter(patient, role, folder, now, sequences))

    async def mask() -> Finding:
        shown = played[0] if played else probe.trajectory
        return check_mask(shown, training_sequences(shown), model.tokenizer)

    yield await attempted(GAP, gap)
    for role in patient.adapters:
        yield await attempted(name_of(role), lambda r=role: served(r))  # type: ignore[misc]
    yield await attempted(MASK, mask)
