"""`rolecraft serve`: a model and its role adapters behind an OpenAI-compatible address."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rolecraft._listening import LOOPBACK, bound
from rolecraft.cli._engines import (
    Engine,
    check_formats,
    formats_in_words,
    load_engine,
    named_settings,
)
from rolecraft.cli._exits import CommandLineError, ExitCode
from rolecraft.cli._options import Debug
from rolecraft.cli._output import Output
from rolecraft.cli._servers import lines_of, stop_at_signals

if TYPE_CHECKING:
    from rolecraft.serving import ModelServer


def serve(
    model: Annotated[
        str,
        typer.Argument(
            metavar="MODEL",
            help="A folder with a model and its tokenizer, or a name on the Hugging Face hub. "
            "`transformers:MODEL` or `vllm:MODEL` chooses the engine too.",
        ),
    ],
    adapter: Annotated[
        list[str] | None,
        typer.Option(
            "--adapter",
            metavar="ROLE=PATH",
            help="A LoRA adapter as peft saves it, served under the role's name. Can be given "
            "several times.",
        ),
    ] = None,
    also_known_as: Annotated[
        list[str] | None,
        typer.Option(
            "--also-known-as",
            metavar="NAME",
            help="A further name that adapters may call this base model by. Can be given several "
            "times.",
        ),
    ] = None,
    host: Annotated[
        str, typer.Option("--host", help="Address to listen on; 0.0.0.0 for all.")
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option("--port", min=0, max=65535, help="Port; 0 takes a free one.")
    ] = 8000,
    name: Annotated[
        str | None,
        typer.Option("--name", help="What clients call the model; the folder's name by default."),
    ] = None,
    engine: Annotated[
        Engine,
        typer.Option("--engine", help="auto: vLLM where it is installed, else transformers."),
    ] = "auto",
    api_key_file: Annotated[
        Path | None,
        typer.Option(
            "--api-key-file",
            metavar="FILE",
            dir_okay=False,
            help="API keys that are accepted, one a line.",
        ),
    ] = None,
    api_key: Annotated[
        str | None,
        typer.Option(
            "--api-key",
            metavar="KEY",
            envvar="ROLECRAFT_API_KEY",
            help="One API key. On the command line every user of the machine can read it.",
        ),
    ] = None,
    no_key: Annotated[
        bool, typer.Option("--no-key", help="Let everybody who reaches the server use it.")
    ] = False,
    admin_key_file: Annotated[
        Path | None,
        typer.Option(
            "--admin-key-file",
            metavar="FILE",
            dir_okay=False,
            help="Keys that may load and unload adapters while it serves.",
        ),
    ] = None,
    tool_format: Annotated[
        str | None,
        typer.Option(
            "--tool-format",
            metavar="NAME",
            help="How the model writes calls of tools; found by its name and template otherwise.",
        ),
    ] = None,
    reasoning_format: Annotated[
        str | None,
        typer.Option(
            "--reasoning-format", metavar="NAME", help="How it writes reasoning; the same."
        ),
    ] = None,
    engine_settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME=VALUE",
            help="A setting of the engine, several times if need be: `dtype=bfloat16`, and for "
            "vLLM `context=8192`, `max_rank=16` or any of its own: `gpu_memory_utilization=0.6`.",
        ),
    ] = None,
    max_tokens: Annotated[
        int,
        typer.Option("--max-tokens", min=1, help="Of an answer whose request sets no limit."),
    ] = 1024,
    max_answers: Annotated[
        int,
        typer.Option("--max-answers", min=1, help="Answers under way or waiting; then 503."),
    ] = 512,
    grace: Annotated[
        int,
        typer.Option(
            "--grace", min=1, help="Seconds that requests under way get when it is stopped."
        ),
    ] = 60,
    debug: Debug = False,
) -> None:
    """Serve a model and its role adapters: OpenAI's API, on this machine."""
    output = Output(json=False, makes=True)
    adapters = [_pair(text) for text in adapter or ()]
    if len({role for role, _ in adapters}) < len(adapters):
        raise CommandLineError("`--adapter`: a role is named twice. Each has one adapter.")
    chosen = named_settings(engine_settings or ())
    keys = [*lines_of(api_key_file, "--api-key-file", "key"), *([api_key] if api_key else [])]
    if keys and no_key:
        raise CommandLineError("`--no-key` and an API key exclude each other. Leave one out.")
    with output:
        from rolecraft.models.adapter_files import check_config
        from rolecraft.serving import ModelServer, Settings

        check_formats(tool_format, reasoning_format)
        if host not in LOOPBACK and not (keys or no_key):
            raise CommandLineError(
                f"`--host {host}` can be reached from other machines: give `--api-key-file FILE`, "
                f"or `--no-key` if everybody there may use the model."
            )
        settings = Settings(
            name=name or _name_of(model),
            keys=keys,
            admin_keys=lines_of(admin_key_file, "--admin-key-file", "key"),
            any_host=no_key,
            max_tokens=max_tokens,
            max_answers=max_answers,
        )
        if settings.name in {role for role, _ in adapters}:
            raise CommandLineError(
                f"`--adapter {settings.name}=...`: that is the name of the model itself. Give the "
                f"model another one with `--name`."
            )
        for _, path in adapters:
            check_config(path)
        listening = bound(host, port)  # before the model is loaded, which may take minutes
        try:
            loaded = load_engine(
                model,
                engine,
                output,
                name=settings.name,
                parser=tool_format,
                reasoning=reasoning_format,
                adapters=len(adapters),
                also_known_as=also_known_as or (),
                chosen=chosen,
            )
            for line in formats_in_words(loaded, tool_format, reasoning_format):
                output.say(line)
        except BaseException:
            listening.close()
            raise
        server = ModelServer(loaded, settings, host=host, grace=grace, listening=listening)
        interrupted = asyncio.run(_serve(server, adapters, settings.name, output))
    if interrupted:
        raise typer.Exit(ExitCode.INTERRUPTED)


async def _serve(
    server: ModelServer, adapters: list[tuple[str, str]], name: str, output: Output
) -> bool:
    """Serve until a signal comes. Returns whether it was Ctrl+C and work was given up."""
    model: Any = server.model
    gave_up = stop_at_signals(server, output)
    try:
        await model.prepare()
        for role, path in adapters:
            version = await model.load_adapter(role, path)
            output.say(f"Adapter `{role}`: {path} (rank {version.rank}).")
    except BaseException:
        await model.aclose()
        raise
    served = ", ".join(f"`{each}`" for each in (name, *(role for role, _ in adapters)))
    output.say(f"Serving {served} at {server.url}")
    output.note("Ctrl+C ends; requests under way are finished first.")
    await server.serve()
    output.note("Ended.")
    return gave_up()


def _name_of(model: str) -> str:
    path = model.partition(":")[2] if model.startswith(("transformers:", "vllm:")) else model
    return Path(path).resolve().name if Path(path).is_dir() else path


def _pair(text: str) -> tuple[str, str]:
    role, equals, path = text.partition("=")
    if not (role and equals and path):
        raise CommandLineError(f"`--adapter {text}`: write ROLE=PATH.")
    return role, path
