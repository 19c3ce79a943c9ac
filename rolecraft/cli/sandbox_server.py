"""`rolecraft sandbox-server`: sandboxes for clients on other machines."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from rolecraft._listening import LOOPBACK
from rolecraft.cli._exits import CommandLineError, ExitCode
from rolecraft.cli._options import Debug
from rolecraft.cli._output import Output
from rolecraft.cli._servers import lines_of, stop_at_signals

if TYPE_CHECKING:
    from rolecraft.sandboxes import SandboxProvider
    from rolecraft.sandboxes.server import SandboxServer

Provider = Literal["bubblewrap", "landlock", "local"]


def sandbox_server(
    host: Annotated[
        str, typer.Option("--host", help="Address to listen on; 0.0.0.0 for all.")
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option("--port", min=0, max=65535, help="Port; 0 takes a free one.")
    ] = 8100,
    token_file: Annotated[
        Path | None,
        typer.Option(
            "--token-file",
            metavar="FILE",
            dir_okay=False,
            help="Tokens that are accepted, one a line.",
        ),
    ] = None,
    token_env: Annotated[
        str | None,
        typer.Option(
            "--token-env", metavar="NAME", help="The environment variable that holds the token."
        ),
    ] = None,
    no_token: Annotated[
        bool,
        typer.Option(
            "--no-token", help="Serve every program of this machine, and none of another."
        ),
    ] = False,
    provider: Annotated[
        Provider,
        typer.Option(
            "--provider",
            help="What makes the sandboxes. local: plain processes without walls.",
        ),
    ] = "bubblewrap",
    max_sandboxes: Annotated[
        int,
        typer.Option(
            "--max-sandboxes", min=1, help="Sandboxes and snapshots at the same time; then 429."
        ),
    ] = 64,
    max_commands: Annotated[
        int,
        typer.Option(
            "--max-commands", min=1, help="Commands and transfers at the same time; then 429."
        ),
    ] = 64,
    lease_seconds: Annotated[
        float,
        typer.Option(
            "--lease-seconds",
            min=0.1,
            help="After so long without a sign of life, what a client has is closed.",
        ),
    ] = 120.0,
    max_body: Annotated[
        int,
        typer.Option(
            "--max-body", min=1, metavar="BYTES", help="Of a request or a file; then 413."
        ),
    ] = 64 * 2**20,
    max_upload: Annotated[
        int,
        typer.Option(
            "--max-upload", min=1, metavar="BYTES", help="Of a folder that is sent; then 413."
        ),
    ] = 2**30,
    max_seconds: Annotated[
        float | None,
        typer.Option(
            "--max-seconds",
            min=0.001,
            metavar="S",
            help="Seconds of wall time, the most a client may have: 4 hours.",
        ),
    ] = None,
    max_cpu_seconds: Annotated[
        int | None,
        typer.Option(
            "--max-cpu-seconds",
            min=1,
            metavar="S",
            help="Seconds of processor time of each process, the most a client may have: 4 hours.",
        ),
    ] = None,
    max_memory: Annotated[
        int | None,
        typer.Option(
            "--max-memory",
            min=1,
            metavar="BYTES",
            help="Bytes of memory, the most a client may have: 8 GiB.",
        ),
    ] = None,
    max_processes: Annotated[
        int | None,
        typer.Option(
            "--max-processes",
            min=1,
            metavar="N",
            help="Processes and threads, the most a client may have: 4096.",
        ),
    ] = None,
    max_file: Annotated[
        int | None,
        typer.Option(
            "--max-file",
            min=1,
            metavar="BYTES",
            help="Bytes of each file, the most a client may have: 4 GiB.",
        ),
    ] = None,
    max_disk: Annotated[
        int | None,
        typer.Option(
            "--max-disk",
            min=1,
            metavar="BYTES",
            help="Bytes of all files, the most a client may have: 16 GiB.",
        ),
    ] = None,
    max_output: Annotated[
        int | None,
        typer.Option(
            "--max-output",
            min=1,
            metavar="BYTES",
            help="Bytes of output that are kept, the most a client may have: 64 MiB.",
        ),
    ] = None,
    max_answer: Annotated[
        int,
        typer.Option(
            "--max-answer", min=1, metavar="BYTES", help="Of what a command printed, in JSON."
        ),
    ] = 64 * 2**20,
    allow_network: Annotated[
        bool,
        typer.Option(
            "--allow-network", help="Clients may ask for a network; otherwise they get none."
        ),
    ] = False,
    allow_readable: Annotated[
        list[Path] | None,
        typer.Option(
            "--allow-readable",
            metavar="DIR",
            exists=True,
            file_okay=False,
            help="A folder here that clients may have in their sandboxes to read, or folders below "
            "it. Several times for several.",
        ),
    ] = None,
    allow_root: Annotated[
        list[Path] | None,
        typer.Option(
            "--allow-root",
            metavar="DIR",
            exists=True,
            file_okay=False,
            help="A folder here that clients may have as the root of their sandboxes, or folders "
            "below it. Several times for several.",
        ),
    ] = None,
    grace: Annotated[
        int,
        typer.Option(
            "--grace", min=1, help="Seconds that commands under way get when it is stopped."
        ),
    ] = 10,
    debug: Debug = False,
) -> None:
    """Serve sandboxes to `Remote` clients: `Remote(URL, token=...)`."""
    output = Output(json=False, makes=True)
    tokens = [*lines_of(token_file, "--token-file", "token"), *_of_variable(token_env)]
    if tokens and no_token:
        raise CommandLineError("`--no-token` and a token exclude each other. Leave one out.")
    if not tokens and not no_token:
        raise CommandLineError(
            "A sandbox server runs what it is told, so it wants a token: `--token-file FILE` or "
            "`--token-env NAME`; for programs of this machine alone, `--no-token`."
        )
    if no_token and host not in LOOPBACK:
        raise CommandLineError(
            f"`--host {host}` can be reached from other machines, and `--no-token` would let them "
            f"all run what they like: give `--token-file FILE`, or leave `--host` out."
        )
    with output:
        from rolecraft.sandboxes.server import MOST, SandboxServer, ServerSettings

        def server() -> SandboxServer:
            return SandboxServer(made, settings, host=host, port=port, grace=grace)

        wishes: dict[str, Any] = {
            "seconds": max_seconds,
            "cpu_seconds": max_cpu_seconds,
            "memory_bytes": max_memory,
            "processes": max_processes,
            "file_bytes": max_file,
            "disk_bytes": max_disk,
            "output_bytes": max_output,
        }
        given = {name: value for name, value in wishes.items() if value is not None}
        settings = ServerSettings(
            tokens=tokens,
            no_token=no_token,
            max_sandboxes=max_sandboxes,
            max_commands=max_commands,
            lease_seconds=lease_seconds,
            max_body=max_body,
            max_upload=max_upload,
            max_answer=max_answer,
            most=replace(MOST, **given),
            allow_network=allow_network,
            max_reading=max(512 * 2**20, max_body),
            readable=[str(path) for path in allow_readable or ()],
            roots=[str(path) for path in allow_root or ()],
        )
        made = _provider(provider)
        if provider == "local":
            output.warn(
                "LocalProcess has no walls: whoever has the token runs commands as this user. "
                "`--provider bubblewrap` has."
            )
        interrupted = asyncio.run(_serve(made, server, provider, output))
    if interrupted:
        raise typer.Exit(ExitCode.INTERRUPTED)


async def _serve(
    made: SandboxProvider, start: Callable[[], SandboxServer], provider: str, output: Output
) -> bool:
    """Serve until a signal comes. Returns whether work was given up."""
    async with await made.create():
        pass  # what cannot be had here is told before anybody asks for it
    server = start()
    gave_up = stop_at_signals(server, output)
    output.say(f"Serving `{provider}` sandboxes at {server.url}")
    output.note("Ctrl+C ends; every sandbox is closed then.")
    await server.serve()
    output.note("Ended.")
    return gave_up()


def _provider(name: Provider) -> Any:
    """Raises `SandboxError` if it cannot be had here."""
    from rolecraft import sandboxes

    match name:
        case "bubblewrap":
            return sandboxes.Bubblewrap()
        case "local":
            return sandboxes.LocalProcess()
        case "landlock":
            return sandboxes.Landlock()


def _of_variable(name: str | None) -> list[str]:
    if name is None:
        return []
    token = os.environ.get(name, "").strip()
    if not token:
        raise CommandLineError(
            f"`--token-env {name}`: this environment variable is not set, or empty."
        )
    return [token]
