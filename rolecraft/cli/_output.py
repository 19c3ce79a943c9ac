"""Where a command's words go.

Without `--json`, what a person asked for goes to stdout, progress to stderr. With it, stdout has
JSON lines and nothing else: people's tables and everything that user code prints go to stderr, also
what programs that it starts and libraries in C print.

Whoever reads stdout may stop early (`rolecraft annotate runs --json | head -1`). A command that
only reads then ends, and well; one that makes something goes on to its end, which is in files.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import math
import os
import shlex
import sys
import textwrap
from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from rich import box
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from rolecraft.cli._exits import ExitCode

if TYPE_CHECKING:
    from rich.progress import Progress

    from rolecraft.errors import TraceError
    from rolecraft.trajectories import RoleRow, Usage
    from rolecraft.viewer.reading import Step

_UNBOUNDED = 100_000
_all_steps: ContextVar[bool] = ContextVar("all_steps", default=False)


@contextlib.contextmanager
def all_steps() -> Iterator[None]:
    """Commands that run here are steps of one: none says which comes next."""
    token = _all_steps.set(True)
    try:
        yield
    finally:
        _all_steps.reset(token)


class Output:
    """The streams of one command. `say` and `table` are for people, `result` for programs.

    A command does its work `with` its output: with `--json`, nothing else gets to stdout then.
    One that `makes` something goes on when nobody reads its output any more.
    """

    def __init__(self, *, json: bool, makes: bool = False) -> None:
        self.json = json
        self._makes = makes
        self.page = _Console(self._nobody_reads, stderr=json)
        self.progress = _Console(self._nobody_reads, stderr=True)
        self._write = _to_stream(sys.stdout)
        self._apart = contextlib.ExitStack()
        self._formats_told = False

    def __enter__(self) -> Self:
        if self.json:
            self._write = self._apart.enter_context(_stdout_apart())
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._apart.close()

    def result(self, record: dict[str, Any]) -> None:
        """One JSON line on stdout; nothing without `--json`."""
        if self.json:
            # A lone surrogate (a broken character of a model) must not cost the line.
            line = json.dumps(_finite(record), ensure_ascii=False, allow_nan=False, default=str)
            try:
                self._write((line + "\n").encode("utf-8", "backslashreplace"))
            except BrokenPipeError:
                self._write = lambda data: None
                self._nobody_reads()

    def _nobody_reads(self) -> None:
        """End a command that makes nothing."""
        if not self._makes:
            raise SystemExit(ExitCode.OK)

    def say(self, text: str = "", *, style: str = "") -> None:
        """A line for people. Never cut, and wrapped by the terminal only."""
        self.page.print(Text(printable(text), style), soft_wrap=True)

    def said(self, role: str, content: str) -> None:
        """A message as it comes: who says it, and what."""
        text = Text(role or "somebody", "bold cyan").append(": ", "default")
        self.page.print(text.append(printable(content), "not bold default"), soft_wrap=True)

    def step(self, step: Step, failures: Sequence[str]) -> None:
        """One step of a trajectory: its number, who, what, to whom, and the failures in it."""
        says = step.kind == "message"
        line = Text(f"{step.seq:>5}  ", "dim")
        line.append(printable(step.role or "-"), "bold cyan" if says else "cyan")
        line.append(f" {printable(step.label)}", "default" if says else "dim")
        if step.receivers:
            line.append(f" to {printable(', '.join(step.receivers))}", "default")
        for mode in failures:
            line.append(f"  [{mode}]", "bold red")
        if step.text:
            text = printable(step.text)
            if "\n" in text or len(text) > 100:
                line.append("\n" + textwrap.indent(text, " " * 9))
            else:
                line.append(f": {text}")
        self.page.print(line, soft_wrap=True)

    def note(self, text: str) -> None:
        """A line on what is going on, always on stderr."""
        self.progress.print(Text(printable(text), "dim"), soft_wrap=True)

    def then(self, *words: object) -> None:
        """The command that comes after this one, unless a command runs both (`all_steps`)."""
        if not _all_steps.get():
            self.note(f"Next: {shlex.join(map(str, words))}")

    def warn(self, what: str | TraceError) -> None:
        """A line on what is wrong, always on stderr. The list of formats is said once."""
        text = str(what)
        if not isinstance(what, str) and what.listed:
            text = what.short if self._formats_told else text
            self._formats_told = True
        self.progress.print(Text(printable(text), "yellow"), soft_wrap=True)

    @contextlib.contextmanager
    def counter(self, what: str) -> Iterator[Callable[[], None]]:
        """Counts on a terminal's last line while work goes on; says nothing without a terminal."""
        from rich.progress import Progress, SpinnerColumn, TextColumn

        columns = (SpinnerColumn(), TextColumn("{task.completed:.0f} " + what))
        with self._live(Progress(*columns, console=self.progress, transient=True)) as progress:
            task = progress.add_task("", total=None)
            yield lambda: progress.advance(task)

    @contextlib.contextmanager
    def bar(self, what: str, total: int, *, lines: int = 10) -> Iterator[Callable[[str], None]]:
        """A progress bar on stderr; call it with a word on the state for each step.

        Without a terminal it is so many lines instead, spread evenly.
        """
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress,
            TextColumn,
            TimeElapsedColumn,
        )

        if not self.progress.is_terminal:
            yield _Lines(self, what, total, lines).step
            return
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.fields[state]}"),
        )
        with self._live(Progress(*columns, console=self.progress)) as progress:
            task = progress.add_task(what, total=total, state="")
            yield lambda state: progress.update(task, advance=1, state=state)

    def _live(self, progress: Progress) -> Progress:
        progress.disable = not self.progress.is_terminal
        return progress

    def table(
        self,
        title: str,
        head: Sequence[str],
        rows: Sequence[Sequence[object]],
        *,
        numeric: int = 99,
        whole: int = 0,
    ) -> None:
        """A table for people; columns from number `numeric` on (0-based) are figures.

        The first `whole` columns are never broken. Nothing is where there is no terminal: a file
        name in two lines is found by no `grep`.
        """
        table = Table(box=box.SIMPLE_HEAD)
        for index, name in enumerate(head):
            table.add_column(
                name,
                justify="right" if index >= numeric else "left",
                overflow="fold",
                no_wrap=index < whole,
            )
        for row in rows:
            table.add_row(*(Text(printable(str(cell))) for cell in row))
        self.say(title, style="bold")  # in the table it would be as narrow as that
        if not self.page.is_terminal:
            wide = self.page.options.update(width=_UNBOUNDED)
            table.width = Measurement.get(self.page, wide, table).maximum
        self.page.print(table, crop=False)


@contextlib.contextmanager
def _stdout_apart() -> Iterator[Callable[[bytes], None]]:
    """Meanwhile all that is printed goes to stderr; what it yields writes to the real stdout.

    Python's `print` is only one of the ways to stdout: child processes and C write to the
    descriptor. Where `sys.stdout` is no descriptor 1 (a test captures it), only Python is diverted.
    """
    stream = sys.stdout
    if not _is_descriptor(stream, 1):
        with contextlib.redirect_stdout(sys.stderr):
            yield _to_stream(stream)
        return
    stream.flush()
    real = os.dup(1)
    try:
        os.dup2(2, 1)
        with contextlib.redirect_stdout(sys.stderr):
            yield lambda data: _write_all(real, data)
    finally:
        # What Python and C still hold back was printed meanwhile, so it goes to stderr too.
        with contextlib.suppress(OSError):
            stream.flush()
        with contextlib.suppress(OSError, TypeError):  # no such library to ask: Windows
            ctypes.CDLL(None).fflush(None)
        os.dup2(real, 1)
        os.close(real)


def _is_descriptor(stream: Any, number: int) -> bool:
    try:
        return bool(stream.fileno() == number)
    except (AttributeError, OSError, ValueError):  # none at all, or one in memory
        return False


def _to_stream(stream: Any) -> Callable[[bytes], None]:
    def write(data: bytes) -> None:
        stream.write(data.decode("utf-8"))
        stream.flush()

    return write


def _write_all(descriptor: int, data: bytes) -> None:
    while data:
        data = data[os.write(descriptor, data) :]


class _Lines:
    """Progress in lines, for logs."""

    def __init__(self, output: Output, what: str, total: int, lines: int) -> None:
        self._output, self._what, self._total, self._lines = output, what, total, lines
        self._done = 0

    def step(self, state: str) -> None:
        before = self._done * self._lines // self._total
        self._done += 1
        if self._done * self._lines // self._total > before:
            comma = ", " if state else ""
            self._output.note(f"{self._what}: {self._done} of {self._total}{comma}{state}")


def _finite(value: Any) -> Any:
    """`value` with null for infinities and NaN, which JSON does not have."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {str(key): _finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    return value


def usage_record(usage: Usage | RoleRow) -> dict[str, Any]:
    """What model calls cost, as a part of a JSON line."""
    return {
        "calls": usage.calls,
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "usd": usage.usd,
    }


def printable(text: str) -> str:
    """Text of strangers for a terminal: no control characters, no lone surrogates."""
    return "".join(
        char if char.isprintable() or char in "\n\t" else "\N{REPLACEMENT CHARACTER}"
        for char in text
    )


class _Console(Console):
    """Says it to its command, when nobody reads any more, rather than end the process with 1."""

    def __init__(self, nobody_reads: Callable[[], None], *, stderr: bool) -> None:
        super().__init__(stderr=stderr, markup=False, highlight=False, emoji=False)
        self._nobody_reads = nobody_reads

    def on_broken_pipe(self) -> None:
        self.quiet = True
        with contextlib.suppress(OSError, ValueError):  # what Python still holds back goes nowhere
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self.file.fileno())
            os.close(nowhere)
        self._nobody_reads()
