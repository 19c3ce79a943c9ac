"""Which tokens of an episode are trained, held against what the record says of each.

The record knows of every token whether the model was given or sampled it, at which temperature and
among how many. Trained are those that the model chose: nothing else can be credited or blamed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, Literal

from rolecraft.training.doctor.finding import Finding
from rolecraft.training.policy.sequences import TrainingSequence
from rolecraft.training.sft.pieces import pieces_by_kind
from rolecraft.trajectories.events import TokenSpan
from rolecraft.trajectories.trajectory import Trajectory

NAME = "mask"

Kind = Literal[
    "trained",  # sampled, with a choice
    "given",  # prompts, results of tools, what others said
    "forced",  # sampled where one token only was allowed
    "greedy",  # the likeliest one was taken, at temperature 0
]


def kinds(span: TokenSpan) -> list[Kind]:
    """Of each token of a model call."""
    allowed = span.support or [None] * len(span.sampled)
    sampled: list[Kind] = [
        "greedy" if span.temperature <= 0 else "forced" if ids and len(ids) == 1 else "trained"
        for ids in allowed
    ]
    return [*["given"] * len(span.given), *sampled]  # type: ignore[list-item]


def recorded(trajectory: Trajectory) -> dict[tuple[str, str], tuple[list[int], list[Kind]]]:
    """By role and token sequence: the tokens, and what each is."""
    found: dict[tuple[str, str], tuple[list[int], list[Kind]]] = {}
    for event in trajectory.of("model_call"):
        if event.tokens is not None:
            ids, its = found.setdefault((event.role, event.tokens.session), ([], []))
            ids += [*event.tokens.given, *event.tokens.sampled]
            its += kinds(event.tokens)
    return found


def check_mask(
    trajectory: Trajectory, sequences: Sequence[TrainingSequence], tokenizer: Any
) -> Finding:
    """`sequences` are the episode's, as `training_sequences` makes them."""
    known = recorded(trajectory)
    counts: Counter[str] = Counter()
    wrong: Counter[tuple[Kind, bool]] = Counter()
    example: dict[tuple[Kind, bool], str] = {}
    shown: list[tuple[str, str]] = []
    most = 0
    if [sequence.ids for sequence in sequences] != [ids for ids, _ in known.values()]:
        return Finding(
            check=NAME,
            verdict="fail",
            found="The sequences to train on are not the tokens of the record",
            advice="Make them with `training_sequences(trajectory)`.",
        )
    for sequence, (ids, its) in zip(sequences, known.values(), strict=True):
        counts.update(its)
        for at, (kind, trained) in enumerate(zip(its, sequence.action_mask, strict=True)):
            if trained != (kind == "trained"):
                wrong[kind, trained] += 1
                example.setdefault((kind, trained), tokenizer.decode([ids[at]]))
        if len(set(its)) > most:
            most = len(set(its))
            shown = list(pieces_by_kind(ids, its, tokenizer))
    total = sum(counts.values())
    value = ", ".join(f"{counts[kind]} {kind}" for kind in _ORDER if counts[kind])
    numbers: dict[str, float] = {kind: counts[kind] for kind in _ORDER}
    if wrong:
        (kind, trained), tokens = wrong.most_common(1)[0]
        said = "are trained" if trained else "are left out, though the model chose them"
        what = "sampled" if kind == "trained" else kind
        return Finding(
            check=NAME,
            verdict="fail",
            value=value,
            limit="0 wrong",
            found=f"{tokens} {what} tokens {said}, such as {example[kind, trained]!r}",
            advice="The mask of the loss is `TrainingSequence.action_mask`: let nothing change "
            "it, and train no text of tools or of other roles.",
            numbers={**numbers, "wrong": float(sum(wrong.values()))},
            pieces=shown,
        )
    if not counts["trained"]:
        return Finding(
            check=NAME,
            verdict="fail",
            value=value or "no tokens",
            found="No token is trained: nothing in the episode was sampled with a choice",
            advice="Sample at a temperature above 0, with a model that records its tokens.",
            numbers=numbers,
            pieces=shown,
        )
    return Finding(
        check=NAME,
        verdict="ok",
        value=value,
        limit="0 wrong",
        found=f"Of {total} tokens those {counts['trained']} are trained that the model chose, and "
        f"no others",
        numbers=numbers,
        pieces=shown,
    )


_ORDER: tuple[Kind, ...] = ("trained", "given", "forced", "greedy")
