"""Pytest in a sandbox that lives on, with the interpreter started and the runner imported.

A run costs what the tests cost: the clean files are there, their bytecode is kept, and each run
gets the changed files, a process of its own, and nothing of what a run before it did. Two servers
(see `_fork_server.py`) take turns, with two seeds for the order of sets, so that the second run of
a candidate is not the first one again.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import secrets
import signal
import zlib
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from rolecraft.environments.software_engineering._guarded_run import OPTIONS
from rolecraft.environments.software_engineering.runtime import Runtime
from rolecraft.environments.software_engineering.taken import test_file
from rolecraft.errors import SandboxError, UsageError
from rolecraft.sandboxes import LiveSandbox, SandboxProvider, SandboxSpec, listening
from rolecraft.sandboxes.base import Execution
from rolecraft.sandboxes.test_reports import NO_TESTS, pytest_command, read_pytest_report_log
from rolecraft.synthesis.folder import SynthesisFolder
from rolecraft.synthesis.plan import Plan
from rolecraft.synthesis.planning.anew import WHAT_GOES, command
from rolecraft.synthesis.validation.places import Place
from rolecraft.synthesis.validation.ran import End, Ran, WorkerLost
from rolecraft.synthesis.validation.settings import MOST_UNSTEADY, UNSTEADY, Settings

HASH_SEEDS = ("1", "2")
FOREVER = 7 * 86_400
"""Seconds, more than a server lives."""
STARTING = 120.0
"""Seconds in which it must be there."""
ANSWER = ".rolecraft-answer"
"""The file with what came of the last order, of whichever server: they take turns."""
CLEAN_RUNS = 3
"""So often the clean tests are run where a few do not pass in the middle of a validation."""
MOST_ANSWER = 64 * 2**20
"""Bytes of it, packed."""


class WarmPytest:
    """A `Worker` for pytest. What it needs is made when it is first used, and when it was lost.

    Before a server is used, its clean tests must do what the plan says of them: `run` and `ready`
    raise `UsageError` if they don't, and `SandboxError` if there is no sandbox or no pytest. Of a
    few that do not pass `ready` tells; for `run` they may be run `CLEAN_RUNS` times, unless it is
    `lenient`, and does not mind them.
    """

    def __init__(
        self,
        plan: Plan,
        settings: Settings,
        provider: SandboxProvider,
        place: Place,
        *,
        lenient: bool = False,
    ) -> None:
        self.plan, self.settings, self._lenient = plan, settings, lenient
        self._provider, self._place = provider, place
        self._sandbox: LiveSandbox | None = None
        self._servers: dict[str, _Server] = {}
        self._sound = True

    async def ready(self) -> Mapping[str, str]:
        """See `Worker.ready`."""
        found: dict[str, str] = {}
        for seed in HASH_SEEDS:
            if not self._sound:
                await self.close()
            await self._server(seed, unsteady=found)
        return found

    async def run(
        self,
        texts: Mapping[str, str],
        tests: Sequence[str] | None = None,
        *,
        again: bool = False,
        most: int,
    ) -> Ran:
        """See `Worker.run`."""
        if not self._sound:  # what the run before did to the work folder could not be undone
            await self.close()
        try:
            return await self._run(await self._server(HASH_SEEDS[again]), texts, tests, most)
        except WorkerLost:
            await self.close()
            raise

    async def close(self) -> None:
        """See `Worker.close`."""
        servers, self._servers = self._servers, {}
        sandbox, self._sandbox = self._sandbox, None
        self._sound = True
        for server in servers.values():
            await server.close()
        if sandbox is not None:
            await sandbox.close()

    async def _server(self, seed: str, *, unsteady: dict[str, str] | None = None) -> _Server:
        """The one of this seed. Without `unsteady`, to be filled, it has none."""
        if seed not in self._servers:
            limits = self.settings.limits(FOREVER)
            spec = SandboxSpec(
                base=self._place.base, readable=self._place.runtime.readable, limits=limits
            )
            self._sandbox = self._sandbox or await self._provider.create(spec)
            server = _Server(self._sandbox, self.plan, self.settings, self._place.runtime, seed)
            try:
                await server.start()
                await self._run_clean(server, unsteady)
            except BaseException as error:
                await server.close()
                if isinstance(error, WorkerLost):
                    why = f"The clean tests cannot be run: {error.reason}"
                    raise SandboxError(why) from error
                raise
            self._servers[seed] = server
        return self._servers[seed]

    async def _run_clean(self, server: _Server, unsteady: dict[str, str] | None) -> None:
        forgiving = self._lenient or unsteady is not None
        for left in reversed(range(1 if forgiving else CLEAN_RUNS)):
            ran = await self._run(server, {}, None, len(self.plan.suite.outcomes))
            wrong = self._check_clean(ran, few_may=forgiving or left > 0)
            if unsteady is not None:
                unsteady |= wrong
            if not wrong:
                return

    async def _run(
        self,
        server: _Server,
        texts: Mapping[str, str],
        tests: Sequence[str] | None,
        most: int,
    ) -> Ran:
        # All by their files too, as in plan and grading: pytest finds no `tests.py` by itself.
        chosen = self.plan.suite.outcomes if tests is None else tests
        places = sorted(set(map(test_file, chosen)))
        said = await server.ask(
            texts=dict(texts),
            tests=None if tests is None else list(tests),
            # An id that names no file is found among all of them.
            places=places if all(places) else [],
            most=most,
            seconds=self._seconds(),
        )
        self._sound = bool(said["as_before"])
        return _read(said, self.settings)

    def _seconds(self) -> float:
        """What a whole run may take on the clock: only what trickles on gets so far."""
        return 60 + 20 * (self.plan.suite.wall_seconds + self.settings.time_limit)

    def _check_clean(self, ran: Ran, *, few_may: bool) -> dict[str, str]:
        """The tests that do not pass without a bug, and why."""
        passing = self.plan.suite.passing
        wrong = [test for test in passing if ran.outcomes.get(test) != "passed"]
        few = (
            ran.end == "finished"
            and len(wrong) <= MOST_UNSTEADY * len(passing)
            and all(test in ran.outcomes for test in wrong)
        )
        if not self._sound:
            raise UsageError(
                f"The clean tests of {self.plan.project.name!r} change files of the project that "
                f"cannot be put back: have the tests write elsewhere."
            )
        if few_may and few:
            return {test: f"{UNSTEADY}, then {ran.outcomes[test]}" for test in wrong}
        if ran.end != "finished" or wrong:
            what = f"{ran.end}, {ran.why}" if ran.end != "finished" else f"not passed: {wrong[0]}"
            more = f" (and {len(wrong) - 1} more)" if len(wrong) > 1 and not ran.why else ""
            way = f"Make the plan anew, {WHAT_GOES}: `{self._anew()}`."
            if few:
                way = "Call it again: what fails in the beginning is set aside."
            raise UsageError(
                f"The clean tests of {self.plan.project.name!r} do not do what the plan says: "
                f"{what}{more}. {way}"
            )
        return {}

    def _anew(self) -> str:
        folder = SynthesisFolder(Path(self.plan.project.source).parent)
        return command(self.plan.about.get("asked", {}), folder)


class _Server:
    """A fork server in a sandbox."""

    def __init__(
        self, sandbox: LiveSandbox, plan: Plan, settings: Settings, runtime: Runtime, seed: str
    ) -> None:
        self.sandbox, self.runtime, self.seed = sandbox, runtime, seed
        self.orders = f".rolecraft-{secrets.token_hex(8)}"
        aside = list(plan.suite.set_aside)
        ignored = [f"--ignore={path}" for path in aside if path.endswith(".py")]  # whole files
        self.settings = {
            "driver": pytest_command()[2],
            "options": [*OPTIONS, *plan.project.test_command, *ignored],
            "path": plan.project.python_path,
            "site": runtime.site,
            "set_aside": aside,
            "passing": plan.suite.passing,
            "slow": {test: 10 * each for test, each in plan.suite.seconds.items() if each > 0.01},
            "seconds": settings.time_limit,
            "collecting": settings.time_limit + plan.suite.wall_seconds,
            "silent": settings.silence + 10 * max(plan.suite.seconds.values(), default=0.0),
            "memory": settings.memory_bytes,
            "compiled": "rolecraft-compiled",
            "order": self.orders,
            "answer": ANSWER,
        }
        self._loop = asyncio.get_running_loop()
        self._rung: asyncio.Queue[bool] = asyncio.Queue()
        """True for each answer, and False when it has ended."""
        self._running: asyncio.Task[Execution] | None = None
        self._number = 0

    async def start(self) -> None:
        self._running = asyncio.create_task(self._serve())
        self._running.add_done_callback(lambda _: self._rung.put_nowait(False))
        await self._answer(STARTING)

    async def _serve(self) -> Execution:
        with listening(self._hear):
            return await self.sandbox.run(
                [self.runtime.python, "-s", "-c", _text()],
                stdin=f"{json.dumps(self.settings)}\n",
                env={"PYTHONHASHSEED": self.seed},
            )

    async def ask(self, **order: Any) -> dict[str, Any]:
        """Give an order, and wait for what came of it. Raises `WorkerLost`."""
        self._number += 1
        text = json.dumps({"id": self._number, **order}) + "\n"
        try:
            await self.sandbox.write(self.orders, text)
        except SandboxError as error:
            raise self._lost() or WorkerLost(str(error)) from error
        said = await self._answer(order["seconds"] + STARTING)
        if said.get("id") != self._number:
            raise WorkerLost("it answers to what it was not asked")
        return said

    async def close(self) -> None:
        if self._running is not None:
            self._running.cancel()
            with contextlib.suppress(asyncio.CancelledError, SandboxError):
                await self._running

    def _hear(self, piece: bytes) -> None:
        """See `listening`: some sandboxes tell it in another thread, in which no queue wakes us."""
        for _ in range(piece.count(b"\n")):
            self._loop.call_soon_threadsafe(self._rung.put_nowait, True)

    async def _answer(self, seconds: float) -> dict[str, Any]:
        await self._ready(seconds)
        try:
            packed = await self.sandbox.read(ANSWER, max_bytes=MOST_ANSWER)
            said = json.loads(zlib.decompress(packed))
        except (SandboxError, zlib.error, ValueError) as error:
            raise self._lost() or WorkerLost(f"its answer cannot be read: {error}") from error
        if not isinstance(said, dict):
            raise WorkerLost(f"it answers {type(said).__name__}")
        return said

    async def _ready(self, seconds: float) -> None:
        """Wait until there is an answer."""
        try:
            answered = await asyncio.wait_for(self._rung.get(), seconds)
        except TimeoutError:  # something has stopped it
            raise WorkerLost(f"it has not answered for {seconds:.0f} seconds") from None
        if not answered:
            raise self._lost() or WorkerLost("it says nothing")

    def _lost(self) -> WorkerLost | None:
        """How it ended, if it did."""
        running = self._running
        if running is None or not running.done() or running.cancelled():
            return None
        if (error := running.exception()) is not None:
            return WorkerLost(str(error))
        done = running.result()
        reason = done.stderr.strip().rpartition("\n")[2] or f"exit code {done.exit_code}"
        return WorkerLost(reason, memory=done.killed_for_memory)


def _read(said: Mapping[str, Any], settings: Settings) -> Ran:
    """What came of a run, by what its server and its report say."""
    code = int(said["code"])
    text, token = str(said["report"]), str(said["token"])
    report = read_pytest_report_log(text, exit_code=code, token=token)
    own = [
        entry
        for entry in map(json.loads, (line for line in text.split("\n") if '"Validation"' in line))
        if entry.get("$report_type") == "Validation" and entry.get("token") == token
    ]
    unloaded = [str(entry["unloaded"]) for entry in own if "unloaded" in entry]
    stopped = next((str(entry["stopped"]) for entry in own if "stopped" in entry), "")

    def ran(end: End, why: str = "") -> Ran:
        return Ran(end, why, report.outcomes, report.messages, float(said["seconds"]))

    if said["late"] or code == -signal.SIGPROF:
        last = [*report.outcomes][-1:]
        return ran("timeout", f"a test did not end{f', after {last[0]}' if last else ''}")
    if stopped == "memory":
        return ran("memory", f"a test wanted more than {settings.memory_bytes} bytes")
    if stopped:
        return ran("stopped", "more tests failed than may")
    if unloaded:
        return ran("does_not_load", f"{unloaded[0]} cannot be collected")
    if code in (_USAGE, NO_TESTS) and not report.outcomes:
        return ran("does_not_load", _last_line(said) or "no test was collected")
    if code < 0:
        return ran("crashed", f"signal {-code} ended the interpreter")
    if not report.finished:
        return ran("crashed", f"it left early, with exit code {code}: {_last_line(said)}")
    if report.fault or code not in (0, 1):
        return ran("crashed", report.fault or f"pytest ended with {code}")
    return ran("finished")


_USAGE = 4
"""pytest's exit code for a conftest file that cannot be imported, among others."""


def _last_line(said: Mapping[str, Any]) -> str:
    return str(said["printed"]).strip().rpartition("\n")[2][:300]


@cache
def _text() -> str:
    """The fork server, which imports nothing from the work folder: a module there may be called
    `json`.
    """
    own = Path(__file__).with_name("_fork_server.py").read_text("utf-8")
    path = "import sys\nsys.path[:] = [each for each in sys.path if each not in ('', '.')]\n"
    return f"{path}exec(compile({own!r}, '<fork server>', 'exec'))\n"
