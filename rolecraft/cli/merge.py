"""`rolecraft merge`: an adapter into its base, as a model that everything serves."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Literal

import typer

from rolecraft.cli._hub import (
    Cache,
    Endpoint,
    HubTimeout,
    Offline,
    fetch_shown,
    hub_settings,
    no_more_downloads,
)
from rolecraft.cli._options import Debug, Json
from rolecraft.cli._output import Output

Format = Literal["float32", "bfloat16", "float16"]


def commit_trained_on(adapter: Path, base: str) -> str | None:
    """The commit of a hub's `base` that the adapter's fine-tuning noted; None if it noted none."""
    from rolecraft.training.model_card import Run

    settings = Run.read(adapter).settings
    commit = settings.get("commit")
    return commit if settings.get("model") == base and isinstance(commit, str) else None


def merge(
    adapter: Annotated[
        Path,
        typer.Argument(
            metavar="ADAPTER", help="Folder of a LoRA adapter, as `rolecraft sft` and peft save it."
        ),
    ],
    out: Annotated[
        Path,
        typer.Option(
            "--out", "-o", metavar="DIR", file_okay=False, help="New folder for the model."
        ),
    ],
    base: Annotated[
        str | None,
        typer.Option(
            "--base",
            metavar="PATH",
            help="The base model, or its name on a hub. Default: the one the adapter names.",
        ),
    ] = None,
    dtype: Annotated[
        Format | None,
        typer.Option("--dtype", help="Number format of the weights. Default: as in the base."),
    ] = None,
    prompt: Annotated[
        list[str] | None,
        typer.Option(
            "--prompt",
            metavar="TEXT",
            help="Compare logits on this text. Can be given several times. Default: four texts.",
        ),
    ] = None,
    tolerance: Annotated[
        float | None,
        typer.Option(
            "--tolerance",
            min=0.0,
            help="How far a logit may move, as a share of the largest one. Default: 0.0001 for "
            "float32, 0.1 for bfloat16, 0.02 for float16.",
        ),
    ] = None,
    also_known_as: Annotated[
        list[str] | None,
        typer.Option(
            "--also-known-as",
            metavar="NAME",
            help="A further name that the adapter may call this base by. Several times.",
        ),
    ] = None,
    offline: Offline = False,
    endpoint: Endpoint = None,
    cache: Cache = None,
    hub_timeout: HubTimeout = 30.0,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Merge a LoRA adapter into its base, compare logits, and write the model with its card."""
    with Output(json=json, makes=True) as output:
        from rolecraft.training.merge import PROMPTS
        from rolecraft.training.merge import merge as merged_into

        hub = hub_settings(offline, endpoint, cache, hub_timeout)
        no_more_downloads()  # what is fetched is fetched with time-outs
        output.note(f"Merging `{adapter}` in float32 ...")
        merged = merged_into(
            adapter,
            out,
            base=base,
            dtype=dtype,
            prompts=prompt or PROMPTS,
            tolerance=tolerance,
            also_known_as=also_known_as or (),
            command=["rolecraft", *sys.argv[1:]],
            fetch=lambda name: fetch_shown(
                name, "model", hub, output, revision=commit_trained_on(adapter, name)
            ),
        )
        output.result(merged.record())
        output.say(
            f"Logits of {merged.tokens} tokens in {merged.prompts} prompts, merged against base "
            f"with adapter: the largest difference is {merged.largest:.3g}, the mean "
            f"{merged.mean:.3g} (at most {merged.tolerance:.3g} is allowed; the adapter itself "
            f"changes them by up to {merged.effect:.3g})."
        )
        if merged.lost:
            output.warn(
                f"{merged.dtype} is too coarse for this adapter: rounding moves logits as much as "
                f"what was learnt. Merge with --dtype float32, or serve the adapter on its base."
            )
        output.say(
            f"The model is in `{out}` ({merged.dtype}); serve it with: rolecraft serve {out}"
        )
