"""The command line: what commands there are, and how they end.

Invariant: every command ends with one of `EXIT_CODES`, and what Rolecraft itself finds wrong is
one line on stderr, never a traceback (unless `--debug` asks for it). Each command is a file of
its own; heavy libraries are imported inside the commands, so that `--help` is quick.
"""

from __future__ import annotations

import traceback
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from rolecraft.cli._exits import EXIT_CODES, ExitCode, of_error
from rolecraft.cli._options import DEBUG, Debug
from rolecraft.cli._retries import log_to_stderr
from rolecraft.cli._wording import in_words_of_commands
from rolecraft.cli.agreement import agreement
from rolecraft.cli.annotate import annotate
from rolecraft.cli.batch import batch
from rolecraft.cli.blame import blame
from rolecraft.cli.compare import compare
from rolecraft.cli.demo import demo
from rolecraft.cli.doctor import doctor
from rolecraft.cli.evaluate import evaluate
from rolecraft.cli.experiment import experiment
from rolecraft.cli.feedback import feedback
from rolecraft.cli.label import label
from rolecraft.cli.labels import labels
from rolecraft.cli.merge import merge
from rolecraft.cli.new import new
from rolecraft.cli.replay import replay
from rolecraft.cli.report import report
from rolecraft.cli.rescore import rescore
from rolecraft.cli.rollout import rollout
from rolecraft.cli.run import run
from rolecraft.cli.runs import runs
from rolecraft.cli.sandbox_server import sandbox_server
from rolecraft.cli.serve import serve
from rolecraft.cli.sft import sft
from rolecraft.cli.show import show
from rolecraft.cli.synth import synth
from rolecraft.cli.train import train
from rolecraft.errors import RolecraftError

_READERS = (
    *("annotate", "blame", "label", "labels", "agreement", "report", "compare", "show"),
    *("serve", "sandbox-server", "runs", "merge", "feedback", "rescore"),
    *("doctor", "synth"),
)
"""Commands that run no team of the user's."""


class _Commands(TyperGroup):
    """Turns what a command raises into a line on stderr and an exit code."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            typer.echo("Interrupted.", err=True)
            raise typer.Exit(ExitCode.INTERRUPTED) from None
        except RolecraftError as error:
            if ctx.meta.get(DEBUG):
                traceback.print_exc()
            text = _in_words(error)
            if ctx.invoked_subcommand in _READERS:
                text = in_words_of_commands(text, _options(self, ctx))
            typer.echo(f"rolecraft: {text}", err=True)
            raise typer.Exit(
                of_error(error, reads_only=ctx.invoked_subcommand in _READERS)
            ) from None


def _options(group: TyperGroup, ctx: Any) -> set[str]:
    """The options of the command that was called; none of one that is a group itself."""
    command = group.get_command(ctx, ctx.invoked_subcommand)
    return {name for each in command.params for name in each.opts} if command else set()


_ALSO = " also raised "
"""What the note of an environment says of roles that failed at the same time."""


def _in_words(error: RolecraftError) -> str:
    """The message, in one line unless it is a list; then what its notes say: where it happened.

    Of other roles' errors the type. Of many roles that failed alike, how many there are.
    """
    text = str(error) if error.has_lines else " ".join(str(error).split())
    notes = list(dict.fromkeys(getattr(error, "__notes__", ())))
    others = [note.partition(":")[0] for note in notes if _ALSO in note]
    told = [note for note in notes if _ALSO not in note] + others
    if len(others) > 1:
        names = ", ".join(note.partition(_ALSO)[0].removeprefix("role ") for note in others)
        kinds = " or ".join(dict.fromkeys(note.partition(_ALSO)[2] for note in others))
        told[-len(others) :] = [f"roles {names} also raised {kinds}"]
    return f"{text} ({'; '.join(told)})" if told else text


app = typer.Typer(
    name="rolecraft",
    cls=_Commands,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Teams of language-model agents that learn from their own failures.",
    epilog="Exit codes: " + "; ".join(f"{code.value} {text}" for code, text in EXIT_CODES.items()),
)

for command in (
    demo,
    new,
    run,
    replay,
    annotate,
    blame,
    label,
    labels,
    agreement,
    report,
    compare,
    experiment,
    rollout,
    evaluate,
    batch,
    show,
    feedback,
    rescore,
    serve,
    sandbox_server,
    train,
    sft,
    merge,
    doctor,
):
    app.command()(command)
app.add_typer(runs, name="runs")
app.add_typer(synth, name="synth")


def _version(wanted: bool) -> None:
    if wanted:
        from rolecraft import __version__

        typer.echo(f"rolecraft {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Say the version.")
    ] = False,
    debug: Debug = False,
) -> None:
    """Options that stand before the command."""


def main() -> None:
    """The entry point of the `rolecraft` command."""
    log_to_stderr()
    app()
