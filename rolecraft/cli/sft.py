"""`rolecraft sft`: fine-tune a model on conversations, recorded runs, or texts."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any

import typer

from rolecraft.cli._background import go_on_in_background, is_worker
from rolecraft.cli._hub import Cache, Endpoint, HubTimeout, Offline, hub_settings
from rolecraft.cli._options import Debug, Json
from rolecraft.cli._output import Output
from rolecraft.cli._sft_run import check_folder, launch_processes, run_here
from rolecraft.cli._sft_settings import as_usage, names_options, settings_of, template_settings
from rolecraft.cli._target import user_errors
from rolecraft.training.sft.settings import SFTSettings

_DEFAULTS = {each.name: each.default for each in fields(SFTSettings)}


_PANELS = {
    "Data": "--split --min-reward --without-failure --stop-reason --skip-broken --max-length "
    "--overlong --packing/--no-packing --template --template-setting --data-cache",
    "What is trained": "--method --rank --alpha --dropout --target --precision --attention",
    "Steps": "--batch --accumulate --epochs --steps --rate --warm-up --weight-decay --clip "
    "--threads --seed",
    "Evaluation, checkpoints, log": "--eval-share --eval-steps --patience --save-steps --keep "
    "--log-steps",
    "Memory": "--auto-batch --gradient-checkpointing/--no-gradient-checkpointing",
}
"""Titles in the help, with the options below them."""


def _option(*names: str, about: str, setting: str = "", **rest: Any) -> Any:
    """An option whose help says the setting's own default; None: it was not given."""
    default = _DEFAULTS.get(setting or names[0].lstrip("-").replace("-", "_"))
    if isinstance(default, (str, int, float)) and not isinstance(default, bool):
        about = (
            f"{about} Default: {default:g}."
            if default != str(default)
            else f"{about} Default: {default}."
        )
    panel = next((title for title, options in _PANELS.items() if names[0] in options.split()), None)
    return typer.Option(*names, help=about, rich_help_panel=panel, **rest)


def sft(
    model: Annotated[
        str | None,
        _option("--model", metavar="PATH", about="Folder of the base model, or its name on a hub."),
    ] = None,
    revision: Annotated[
        str | None,
        _option(
            "--revision",
            metavar="NAME",
            about="Of a model on a hub: branch, tag or commit. Default: main, as it is now.",
        ),
    ] = None,
    data: Annotated[
        list[str] | None,
        _option(
            "--data",
            metavar="PATH",
            about="What to learn from: runs of teams, files or folders of conversations (ShareGPT, "
            "question/answer lists, messages, prompt/completion). Can be given several times.",
        ),
    ] = None,
    out: Annotated[
        Path, typer.Option("--out", "-o", metavar="DIR", file_okay=False, help="Folder for all.")
    ] = Path("tuned"),
    adapter: Annotated[
        str | None,
        _option("--adapter", metavar="DIR", about="Go on from this adapter, with its rank."),
    ] = None,
    role: Annotated[
        list[str] | None,
        _option(
            "--role",
            metavar="ROLE",
            about="Learn this role's turns only. Given several times: an adapter for each.",
        ),
    ] = None,
    resume: Annotated[
        bool,
        typer.Option("--resume", help="Go on with the run in --out; its settings are known there."),
    ] = False,
    background: Annotated[
        bool,
        typer.Option("--background", help="Go on when the terminal is closed: `rolecraft runs`."),
    ] = False,
    processes: Annotated[
        int, typer.Option("--processes", min=1, help="Processes, one for each device.")
    ] = 1,
    split: Annotated[
        str | None, _option("--split", about="Of data that has splits, this one.")
    ] = None,
    min_reward: Annotated[
        float | None, _option("--min-reward", about="Of runs those with at least this reward.")
    ] = None,
    without_failure: Annotated[
        list[str] | None,
        _option(
            "--without-failure",
            metavar="MODE",
            about="No runs in which this failure mode was found, or `any`. Several times.",
        ),
    ] = None,
    stop_reason: Annotated[
        list[str] | None,
        _option("--stop-reason", about="Only runs that stopped for this reason. Several times."),
    ] = None,
    skip_broken: Annotated[
        bool | None, _option("--skip-broken", about="Leave out rows that are no samples.")
    ] = None,
    overlong: Annotated[
        str | None,
        _option("--overlong", about="Samples that are too long: leave-out, truncate or split."),
    ] = None,
    template: Annotated[
        str | None, _option("--template", metavar="FILE", about="Another chat template (Jinja).")
    ] = None,
    template_setting: Annotated[
        list[str] | None,
        _option(
            "--template-setting",
            metavar="NAME=VALUE",
            about="For the chat template, such as enable_thinking=false. Several times.",
        ),
    ] = None,
    data_cache: Annotated[
        Path | None,
        _option(
            "--data-cache",
            metavar="DIR",
            file_okay=False,
            about="Folder for prepared data. Default: OUT/data.",
        ),
    ] = None,
    method: Annotated[
        str | None, _option("--method", about="lora, qlora-4, qlora-8 or full.")
    ] = None,
    rank: Annotated[int | None, _option("--rank", about="Of a fresh adapter. Default: 16.")] = None,
    alpha: Annotated[
        int | None, _option("--alpha", about="Of a fresh adapter. Default: twice the rank.")
    ] = None,
    dropout: Annotated[
        float | None, _option("--dropout", about="Of the adapter. Default: 0.05, or the adapter's.")
    ] = None,
    target: Annotated[
        list[str] | None,
        _option("--target", about="Module to adapt. Several times. Default: all linear ones."),
    ] = None,
    precision: Annotated[
        str | None, _option("--precision", about="bf16 or fp32; auto: what the device has.")
    ] = None,
    attention: Annotated[
        str | None,
        _option(
            "--attention", about="flash_attention_2, sdpa or eager; auto: the fastest there is."
        ),
    ] = None,
    batch: Annotated[int | None, _option("--batch", about="Samples at once on a device.")] = None,
    accumulate: Annotated[
        int | None, _option("--accumulate", about="Batches to each step.")
    ] = None,
    auto_batch: Annotated[
        bool | None,
        _option("--auto-batch", about="Halve the batch where memory runs out; steps stay alike."),
    ] = None,
    gradient_checkpointing: Annotated[
        bool | None,
        _option(
            "--gradient-checkpointing/--no-gradient-checkpointing",
            about="Less memory, about 20 % more time. Default: on.",
        ),
    ] = None,
    packing: Annotated[
        bool | None,
        _option("--packing/--no-packing", about="Several samples in a row. Default: off."),
    ] = None,
    max_length: Annotated[
        int | None, _option("--max-length", about="Longest sample in tokens.")
    ] = None,
    epochs: Annotated[float | None, _option("--epochs", about="Passes over the data.")] = None,
    steps: Annotated[
        int | None, _option("--steps", setting="max_steps", about="So many, instead of --epochs.")
    ] = None,
    rate: Annotated[
        float | None,
        _option(
            "--rate", about="Peak learning rate. Default: 2e-4; 1e-5 with --adapter or for full."
        ),
    ] = None,
    warm_up: Annotated[
        float | None, _option("--warm-up", about="Share of the steps in which the rate rises.")
    ] = None,
    weight_decay: Annotated[float | None, _option("--weight-decay", about="AdamW's.")] = None,
    clip: Annotated[
        float | None, _option("--clip", about="Largest norm of a gradient; 0 for any.")
    ] = None,
    eval_share: Annotated[
        float | None, _option("--eval-share", about="Share of the samples to evaluate on.")
    ] = None,
    eval_steps: Annotated[
        int | None, _option("--eval-steps", about="Steps between evaluations.")
    ] = None,
    save_steps: Annotated[
        int | None, _option("--save-steps", about="Steps between checkpoints.")
    ] = None,
    keep: Annotated[
        int | None, _option("--keep", about="Checkpoints to keep, besides the best one.")
    ] = None,
    patience: Annotated[
        int | None,
        _option(
            "--patience",
            about="Stop after so many evaluations without a better loss; keep the best weights.",
        ),
    ] = None,
    log_steps: Annotated[
        int | None, _option("--log-steps", about="Steps to each line of the log.")
    ] = None,
    threads: Annotated[int | None, _option("--threads", about="CPU threads.")] = None,
    seed: Annotated[int | None, _option("--seed", about="Of order, dropout and split.")] = None,
    offline: Offline = False,
    endpoint: Endpoint = None,
    cache: Cache = None,
    hub_timeout: HubTimeout = 30.0,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Fine-tune a model, or one adapter for each role; a killed run goes on with --resume."""
    with Output(json=json, makes=True) as output:
        given: dict[str, Any] = {
            "model": model,
            "revision": revision,
            "adapter": adapter,
            "split": split,
            "min_reward": min_reward,
            "data": data,
            "roles": role,
            "without_failures": without_failure,
            "stop_reasons": stop_reason,
            "skip_broken": skip_broken,
            "overlong": overlong,
            "template": template,
            "template_settings": template_settings(template_setting),
            "method": method,
            "rank": rank,
            "alpha": alpha,
            "dropout": dropout,
            "targets": target,
            "precision": precision,
            "attention": attention,
            "batch": batch,
            "accumulate": accumulate,
            "packing": packing,
            "auto_batch": auto_batch,
            "gradient_checkpointing": gradient_checkpointing,
            "max_length": max_length,
            "epochs": epochs,
            "max_steps": steps,
            "rate": rate,
            "warm_up": warm_up,
            "weight_decay": weight_decay,
            "clip": clip,
            "eval_share": eval_share,
            "eval_steps": eval_steps,
            "save_steps": save_steps,
            "keep": keep,
            "patience": patience,
            "log_steps": log_steps,
            "threads": threads,
            "seed": seed,
        }
        with as_usage():
            settings = settings_of(given, out, resume=resume)
        hub = hub_settings(offline, endpoint, cache, hub_timeout)
        if not is_worker():
            with names_options():
                check_folder(settings, resume=resume)
        if background:
            go_on_in_background(out, output)
            return
        if processes > 1 and not is_worker():
            launch_processes(out, processes)
            return
        with user_errors("fine-tuning failed"), names_options():
            result = run_here(settings, output, hub, resume=resume, cache=data_cache)
        if settings.method == "full":
            output.say(f"The model is in `{out}`; use it as: --model transformers:{out}")
        else:
            places = ", ".join(f"`{one.folder}`" for one in result.trained)
            output.say(f"Adapter, learning curve and checkpoints are in {places}.")
