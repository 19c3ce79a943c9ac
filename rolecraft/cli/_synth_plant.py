"""`rolecraft synth plant` and `modifiers`: bugs drawn, and the ways in which they are made."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from rolecraft.cli._options import Debug, Json, Seed
from rolecraft.cli._output import Output
from rolecraft.cli._synth_options import Folder
from rolecraft.cli._synth_then import then_validate

if TYPE_CHECKING:
    from rolecraft.synthesis.candidates import Candidate
    from rolecraft.synthesis.planting import Planted

_REFUSED_SHOWN = 5


def plant(
    out: Folder,
    most: Annotated[
        int, typer.Option("--most", min=1, metavar="N", help="So many candidates altogether.")
    ] = 1000,
    per_entity: Annotated[
        int, typer.Option("--per-entity", min=1, metavar="N", help="In a function or class.")
    ] = 20,
    per_modifier: Annotated[
        int | None, typer.Option("--per-modifier", min=1, metavar="N", help="Of each modifier.")
    ] = None,
    modifier: Annotated[
        list[str] | None,
        typer.Option(
            "--modifier",
            metavar="NAME",
            help="Only this one of `rolecraft synth modifiers`. Can be given several times.",
        ),
    ] = None,
    unseen: Annotated[
        bool, typer.Option("--unseen", help="Also in code that no test runs, where none can fail.")
    ] = False,
    seed: Seed = 0,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Draw bugs in the project's code: candidates for tasks, written to OUT/candidates.jsonl.

    Called again, it goes on where it was.
    """
    from rolecraft.synthesis.folder import SynthesisFolder
    from rolecraft.synthesis.plan import Plan
    from rolecraft.synthesis.planting import plant, survey
    from rolecraft.trajectories.in_words import count

    with Output(json=json, makes=True) as output:
        folder = SynthesisFolder(out)
        plan = Plan.load(folder)
        with output.bar("files", len(plan.project.code), lines=1) as read:
            found = survey(plan, seed=seed, modifiers=modifier, unseen=unseen, on_file=read)
        output.note(
            f"{count(len(found.places), 'possible change')} of "
            f"{count(found.entities, 'function or class', 'functions and classes')}."
        )
        total = max(min(most, len(found.places)), 1)
        with output.bar("candidates", total) as step:

            def drawn(candidate: Candidate) -> None:
                step(candidate.modifier)

            planted = plant(
                plan,
                folder,
                seed=seed,
                most=most,
                per_entity=per_entity,
                per_modifier=per_modifier,
                unseen=unseen,
                surveyed=found,
                on_candidate=drawn,
            )
        _tell(planted, output)
        then_validate(out, output)


def _tell(planted: Planted, output: Output) -> None:
    from rolecraft.trajectories.in_words import count

    for name, number in planted.made.most_common():
        output.result({"modifier": name, "candidates": number, "same": planted.same[name]})
    rows = [(name, number, planted.same[name]) for name, number in planted.made.most_common()]
    if rows and not output.json:
        output.table(
            "Candidates", ("modifier", "candidates", "left out: the same"), rows, numeric=1
        )
    here = f", {planted.before} of them from before" if planted.before else ""
    output.say(f"{count(planted.total, 'candidate')}{here}.")
    if planted.unseen:
        unseen = count(planted.unseen, "change")
        output.say(f"Left out: {unseen} that no test sees (--unseen takes them).")
    for what, why in list(planted.refused.items())[:_REFUSED_SHOWN]:
        output.warn(f"Nothing from {what}: {why}")
    if len(planted.refused) > _REFUSED_SHOWN:
        output.warn(f"… and nothing from {len(planted.refused) - _REFUSED_SHOWN} more.")


def modifiers(json: Json = False, debug: Debug = False) -> None:
    """List the ways in which `plant` makes bugs."""
    from rolecraft.synthesis.planting import chosen_modifiers

    with Output(json=json) as output:
        known = chosen_modifiers().values()
        for each in known:
            output.result(
                {
                    "modifier": each.name,
                    "about": each.about,
                    "of": each.kinds,
                    "weight": each.weight,
                }
            )
        if not json:
            rows = [(each.name, each.about) for each in known]
            output.table("Modifiers", ("modifier", "what it does"), rows, whole=1)
