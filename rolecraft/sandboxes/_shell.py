"""A bash that goes on, driven through three pipes: no terminal, no thread, no added output.

What runs has an output pipe for both streams, and nothing of ours in it: bash reads its orders from
its standard input and answers on its standard error, and neither is open in what it runs. A line is
sourced from a here-string, so no quote or heredoc in it can reach into the next order. After it
comes an order to report the exit code under a word that nobody can guess.

The bash is interactive, for an interrupt or an unbound variable then ends the line and not the
shell. It has no terminal, so no prompt or echo is ever in the output; and what it sources it runs
as a script, so that it does not speak of jobs, `exit` and terminals.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
import time
from collections.abc import Coroutine, Mapping
from typing import Any

from rolecraft.errors import SandboxError, UsageError
from rolecraft.sandboxes._output import HeadAndTail
from rolecraft.sandboxes._process import Counting, Prunable, Started, Starter
from rolecraft.sandboxes.base import DEFAULT_LIMITS, KILLED, Execution, SandboxLimits
from rolecraft.sandboxes.live import SandboxLost

ARGV = ["bash", "--norc", "--noprofile", "--noediting", "-i"]
# 199 is the output pipe, until each line makes it standard output; 1 and 2 are for answers, so
# that no prompt, trap or trace that a line has set is ever in the output.
SETUP = (
    "exec 199>&1 >&2; PS1= PS2= PROMPT_COMMAND=; set +o history +H; "
    "unset HISTFILE MAILCHECK; shopt -s execfail\n"
)
STREAMS = "</dev/null >&199 2>&1 199>&-"
SUBSTITUTION = re.compile(r"[$<>]\(")
ANSWER = re.compile(rb"([0-9a-f]{16}):(\d+):(\d+);")
PIPE = 65536
"""Bytes that a pipe holds: one read gets all that was written before."""
ESCAPES = str.maketrans({"\\": r"\\", "'": r"\'", "\n": r"\n", "\r": r"\r", "!": r"\041"})
READY_SECONDS = 30.0
PATIENCE = 0.25
"""Seconds for a command to follow a signal."""

# Kills what the shell $1 has started in the last $2 hundredths of a second, and interrupts it.
KILLER = r"""
declare -A parent started
for folder in /proc/[0-9]*; do
    { read -r stat < "$folder/stat"; } 2>/dev/null || continue
    shell=$1 span=$2; set -- ${stat##*) }
    parent[${folder#/proc/}]=$2 started[${folder#/proc/}]=${20}; set -- "$shell" "$span"
done
[[ ${parent[$1]} ]] || exit 3
for pid in "${!parent[@]}"; do
    above=${parent[$pid]}
    while [[ $above != "$1" && ${parent[$above]} ]]; do above=${parent[$above]}; done
    [[ $above == "$1" ]] && (( started[$pid] >= started[$$] - $2 )) && kill -KILL "$pid"
done 2>/dev/null
kill -INT "$1"
"""


async def start_shell(
    starter: Starter,
    *,
    limits: SandboxLimits = DEFAULT_LIMITS,
    cwd: str = "",
    env: Mapping[str, str] = {},
) -> PipedShell:
    """Start a bash with `starter`. `limits` gives time and output of a line, unless it says so.

    Raises `SandboxError` if it does not come up, most often because there is no bash.
    """
    shell = PipedShell(starter, await starter.start(ARGV, cwd=cwd, env=env), limits)
    try:
        await shell._begin()
    except BaseException:
        await asyncio.shield(shell.close())
        raise
    return shell


class PipedShell:
    """See `Shell`, and `start_shell`.

    Each line begins with an empty standard input, and its two streams as the output: redirections
    of 0, 1 and 2 by `exec` end with the line. What background processes print comes with the next
    line's output. `set -e` ends the shell at the first command that fails, as it does anywhere. A
    DEBUG trap is run after `set -T` only, for lines are sourced.
    """

    def __init__(self, starter: Starter, started: Started, limits: SandboxLimits) -> None:
        self._starter, self._started, self._limits = starter, started, limits
        self._loop = asyncio.get_running_loop()
        self._order = asyncio.Lock()
        self._output = HeadAndTail(limits.output_bytes)
        self._answers, self._unsent = bytearray(), bytearray()
        self._token = b""
        self._code: int | None = None
        self._last = 0
        self._waiter: asyncio.Future[None] | None = None
        self._pid = 0
        self._lost, self._closed = "", False
        self._loose, self._signalled = 0, 0.0
        """Signals that may still be on their way to the shell, and when the last was sent."""
        self._settling, self._interrupted = False, False
        self._line_end = self._loop.time()
        self._loop.add_reader(started.stdout, self._read_output)
        self._loop.add_reader(started.stderr, self._read_answers)
        self._ending = self._loop.create_task(self._wait())

    @property
    def alive(self) -> bool:
        """See `Shell`."""
        return not self._lost

    @property
    def line_end(self) -> float | None:
        """When its last line ended, by the loop's clock; None while one runs."""
        return None if self._order.locked() else self._line_end

    async def run(
        self, line: str, *, seconds: float | None = None, output_bytes: int | None = None
    ) -> Execution:
        """See `Shell.run`. Raises `UsageError` for a line that bash cannot be given."""
        if "\0" in line:
            raise UsageError(f"No line of a shell can hold a NUL character: {line!r}.")
        for name, value in (("seconds", seconds), ("output_bytes", output_bytes)):
            if value is not None and not value > 0:
                raise UsageError(f"`run({name}={value!r})`: a limit is more than 0.")
        async with self._order:
            return await self._run(
                line,
                self._limits.seconds if seconds is None else seconds,
                self._limits.output_bytes if output_bytes is None else output_bytes,
            )

    async def interrupt(self) -> None:
        """See `Shell.interrupt`."""
        if self._settling:  # the line is still to come
            self._interrupted = True
        elif self._token:
            self._interrupt()

    async def close(self) -> None:
        """See `Shell.close`."""
        if not self._ending.done():
            self._closed = True
            self._lost = self._lost or (
                "The shell was closed: by `close`, or as its sandbox was forked, kept as a "
                "snapshot, or closed. Start another with `shell()`."
            )
            self._started.kill()
            await to_the_end(self._ending)

    async def _begin(self) -> None:
        self._ask(SETUP)
        if not await self._answered(READY_SECONDS) or self._lost:
            said = self._answers.decode("utf-8", "replace").strip()
            raise SandboxError(
                f"No shell could be started: {said or 'bash does not answer'}. "
                f"It needs bash 4 or newer, and /proc and /dev, in the sandbox."
            )
        self._token = b""

    async def _run(self, line: str, seconds: float, output_bytes: int) -> Execution:
        if self._loose and not self._lost:
            await self._settle()
        if self._lost:
            raise SandboxLost(self._lost)
        before, self._output = self._output, HeadAndTail(output_bytes)
        if len(before):
            self._output.add(before.content)
        began, timed_out, self._code = time.monotonic(), False, None
        self._ask(_order(line, self._last))
        if self._interrupted:
            self._interrupt()
            self._interrupted = False
        try:
            if not await self._answered(seconds):
                timed_out = True
                await to_the_end(self._stop(began))
        except asyncio.CancelledError:
            if not timed_out:
                await to_the_end(self._stop(began))
            raise
        finally:
            self._token, self._last = b"", self._code or 0
            if self._loose and self._code == 128 + signal.SIGINT:  # this one has arrived
                self._loose -= 1
            output, self._output = self._output, HeadAndTail(self._limits.output_bytes)
            self._line_end = self._loop.time()
        if self._closed or self._code is None:
            raise SandboxLost(self._lost)
        killed = isinstance(self._started, Counting) and self._started.killed_for_memory()
        return Execution(
            exit_code=KILLED if timed_out else self._code,
            stdout=output.text,
            stdout_truncated=output.truncated or before.truncated,
            timed_out=timed_out,
            killed_for_memory=killed and self._code == KILLED and not timed_out,
            seconds=time.monotonic() - began,
        )

    def _ask(self, first: str = "") -> None:
        """Have bash do something, and report the exit code of what it did last."""
        self._token = self._token or os.urandom(8).hex().encode()
        report = f"\\builtin printf '{self._token.decode()}:%d:%d;'"
        self._send(f'{first}{report} "$?" "$$"\n')

    async def _settle(self) -> None:
        """Have signals to the last line that come late strike none of the next.

        They go through other processes, so one can arrive after the answer that it was to bring
        about: it is given its time, and then meets an order that does nothing.
        """
        self._settling, self._interrupted, self._code = True, False, None
        try:
            await asyncio.sleep(self._signalled + PATIENCE - self._loop.time())
            self._ask()
            self._ask_again_in(PATIENCE / 4)
            await self._answered(READY_SECONDS)
            self._loose = 0
        finally:
            self._settling, self._token = False, b""

    def _ask_again_in(self, seconds: float) -> None:
        """An interrupt of what had just ended may have thrown away the order to report."""
        self._loop.call_later(seconds, self._ask_again, self._token, seconds)

    def _ask_again(self, token: bytes, after: float = 0.0) -> None:
        if token == self._token and self._code is None:
            self._ask()
            if 0 < after < 1:
                self._ask_again_in(2 * after)

    async def _answered(self, seconds: float) -> bool:
        """Whether the answer comes, or the shell ends, within so many seconds."""
        if self._code is None:
            self._waiter = self._loop.create_future()
            timer = self._loop.call_later(seconds, self._wake)
            try:
                await self._waiter
            finally:
                timer.cancel()
        return self._code is not None

    def _wake(self) -> None:
        if self._waiter is not None:
            resolve(self._waiter)

    def _interrupt(self) -> None:
        self._signal(signal.SIGINT)
        self._ask_again_in(PATIENCE / 4)

    def _signal(self, number: int) -> None:
        self._started.signal(number)
        self._loose, self._signalled = self._loose + 1, self._loop.time()

    async def _stop(self, began: float) -> None:
        """End what runs by ever harder means; at the last, the shell."""
        for means in ("interrupt", "quit", "interrupt", "kill", "kill", "kill"):
            if means == "interrupt":
                self._interrupt()
            elif means == "quit":
                self._signal(signal.SIGQUIT)  # background processes ignore it
            else:
                await self._kill_command(time.monotonic() - began)
                self._ask_again(self._token)
            if await self._answered(PATIENCE):
                return
        self._lost = self._lost or (
            "The shell did not come back from a line that was to be stopped, and was killed. Its "
            "variables are lost; files are not. Start another with `shell()`."
        )
        self._started.kill()
        await self._ending

    async def _kill_command(self, seconds: float) -> None:
        """Kill what the shell has started so lately, wherever in the sandbox it is."""
        if isinstance(self._started, Prunable):
            with contextlib.suppress(SandboxError):  # the sandbox ends, and the shell with it
                await self._started.kill_recent(seconds)
            self._signal(signal.SIGINT)
            return
        words = ["bash", "-c", KILLER, "bash", str(self._pid), str(int(seconds * 100) + 2)]
        try:
            killer = await self._starter.start(words)
        except SandboxError:
            return  # the sandbox ends, and the shell with it
        try:
            async with asyncio.timeout(2.0):
                await killer.wait()
        except TimeoutError:
            killer.kill()
            await killer.wait()
        finally:
            for fd in (killer.stdin, killer.stdout, killer.stderr):
                os.close(fd)

    def _read_output(self) -> None:
        try:
            chunk = os.read(self._started.stdout, PIPE)
        except BlockingIOError:
            return
        if chunk:
            self._output.add(chunk)
        else:
            self._loop.remove_reader(self._started.stdout)

    def _read_answers(self) -> None:
        try:
            chunk = os.read(self._started.stderr, PIPE)
        except BlockingIOError:
            return
        if not chunk:
            self._loop.remove_reader(self._started.stderr)
            return
        self._answers += chunk
        for found in ANSWER.finditer(self._answers):
            if found[1] == self._token and self._code is None:
                self._pid = int(found[3])
                self._read_output()  # all that came before the answer is in the pipe
                self._code = int(found[2])
                self._wake()
        del self._answers[:-4096]

    def _send(self, text: str) -> None:
        waiting = bool(self._unsent)
        self._unsent += text.encode("utf-8", "surrogatepass")
        if not waiting:
            self._write()
            if self._unsent:
                self._loop.add_writer(self._started.stdin, self._write_on)

    def _write_on(self) -> None:
        self._write()
        if not self._unsent:
            self._loop.remove_writer(self._started.stdin)

    def _write(self) -> None:
        try:
            written = os.write(self._started.stdin, self._unsent)
            del self._unsent[:written]
        except BlockingIOError:
            pass
        except OSError:  # it has ended, which `_wait` tells
            self._unsent.clear()

    async def _wait(self) -> None:
        """Wait for the shell's end, and let go of it."""
        try:
            code = await self._started.wait()
        except asyncio.CancelledError:  # the event loop ends
            self._closed, self._lost = True, "The event loop of the shell has ended."
            self._started.kill()
            self._let_go()
            raise
        self._lost = self._lost or (
            f"The shell has ended with exit code {code}, by `exit`, `exec`, `set -e` or a signal. "
            f"Start another with `shell()`."
        )
        with contextlib.suppress(BlockingIOError):
            for _ in range(16):  # more than a pipe holds, if somebody goes on writing
                if not (chunk := os.read(self._started.stdout, PIPE)):
                    break
                self._output.add(chunk)
        self._let_go()
        self._code = code if self._code is None else self._code
        self._wake()

    def _let_go(self) -> None:
        """Close this process's ends of the pipes."""
        for fd in (self._started.stdout, self._started.stderr):
            self._loop.remove_reader(fd)
        self._loop.remove_writer(self._started.stdin)
        self._unsent.clear()
        for fd in (self._started.stdin, self._started.stdout, self._started.stderr):
            os.close(fd)


def _order(line: str, last: int) -> str:
    """What has bash run `line` with `last` as its `$?`."""
    quoted = line.translate(ESCAPES)
    source = f"\\builtin . /dev/fd/198 198<<<$'{quoted}' {STREAMS}"
    if last:  # `&& :` so that `set -e` does not see it
        restore = f"\\builtin . /dev/fd/198 198<<<'\\builtin return {last}' && \\builtin :; "
    else:
        restore = ""
    if not SUBSTITUTION.search(line):
        return f"{restore}{source}\n"
    # Where a substitution does not end, a bash 5.2 that sources it destroys its memory. `eval` is
    # proof against that, so it parses the line first, and takes over those with an error.
    parse = f"\\builtin eval $'if \\\\builtin false; then :\\n{quoted}\\nfi' >/dev/null 2>&1"
    evaluate = f"\\builtin eval $'{quoted}' {STREAMS}"
    return f"if {parse}; then {restore}{source}; else {restore}{evaluate}; fi\n"


def resolve(future: asyncio.Future[None]) -> None:
    """Have a future be done, if it is not."""
    if not future.done():
        future.set_result(None)


async def to_the_end(work: Coroutine[Any, Any, None] | asyncio.Task[None]) -> None:
    """Await `work` to its end, also when cancelled meanwhile, which is raised afterwards."""
    task = asyncio.ensure_future(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        raise cancelled
    task.result()
