"""Runs the clean tests for a plan: which of them end, how long they take, which lines they run.

Never imported: its text is handed to `python -c` in a sandbox. The first line of standard input has
the settings, the rest goes to the driver of `rolecraft.sandboxes.test_reports`, which reports the
tests. Beside them it reports, as lines of kinds of its own, each test and each file of tests as it
begins and as it ends, so that of a run which does not come to its end one knows where it was. It
must run on every Python from 3.8 on: that of the project.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import sys
import time
import zlib

TYPE_CHECKING = False  # so that `typing` is not imported
if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from typing import Any

NEVER_ENDS = "rolecraft: no end within its time"
"""What is printed on standard error before a test that does not end is killed."""


IDLE = 0.02
"""A process that has had less of a processor than this share waits for something."""
PATIENCE = 10
"""So many times its limit a test has that works all the time, on a machine that does much else."""


class Watchdog:
    """Another process, which kills this one when a test takes too long, whatever it does.

    What counts is the time of the processor, so that a busy machine does not make a test too slow;
    and time that goes by while nothing is done.
    """

    def __init__(self, seconds: float) -> None:
        watched = os.getpid()
        ends, self.pipe = os.pipe()
        child = os.fork()
        if child:
            os.close(ends)
            os.waitpid(child, 0)
            return
        if os.fork():  # no child of the tests' process, which may wait for its own
            os._exit(0)
        for each in set(range(64)) - {2, ends}:
            with contextlib.suppress(OSError):
                os.close(each)
        try:
            watch(watched, ends, seconds)
        finally:
            os._exit(0)

    def tell(self, sign: bytes) -> None:
        os.write(self.pipe, sign)


def watch(process: int, pipe: int, seconds: float) -> None:
    """Kill `process` if more than `seconds` go by between a `+` and a `-`, until the pipe ends."""
    began: tuple[float, float] | None = None
    while True:
        ready, _, _ = select.select([pipe], [], [], min(1, seconds / 4) if began else None)
        if ready:
            said = os.read(pipe, 4096)
            if not said:
                return
            began = (time.monotonic(), processor(process)) if said.endswith(b"+") else None
        elif began:
            wall, worked = time.monotonic() - began[0], processor(process) - began[1]
            is_idle = wall > seconds and worked < IDLE * wall
            if worked > seconds or is_idle or wall > PATIENCE * seconds:
                os.write(2, f"\n{NEVER_ENDS}\n".encode())
                os.kill(process, signal.SIGKILL)
                return


def processor(process: int) -> float:
    """The processor time of a process and of what it has waited for, in seconds."""
    with open(f"/proc/{process}/stat", "rb") as file:
        fields = file.read().rpartition(b")")[2].split()
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


class Probe:
    """The plug-in of pytest."""

    def __init__(self, settings: dict[str, Any], write: Callable[..., None]) -> None:
        self.write = write
        self.process = os.getpid()
        self.root = os.getcwd()
        self.path = [os.path.normpath(os.path.join(self.root, each)) for each in settings["path"]]
        self.left_out = set(settings["left_out"])
        self.watchdog = Watchdog(settings["test_seconds"])
        self.lines = Lines(settings, self.root) if settings["lines"] else None

    def pytest_load_initial_conftests(self) -> None:
        sys.path[:0] = self.path

    def pytest_collection_modifyitems(self, config: Any, items: list[Any]) -> None:
        gone = [item for item in items if item.nodeid in self.left_out]
        if gone:
            items[:] = [item for item in items if item.nodeid not in self.left_out]
            config.hook.pytest_deselected(items=gone)

    def pytest_make_collect_report(self, collector: Any) -> Generator[None, Any, None]:
        name = (
            collector.nodeid if hasattr(collector, "path") or hasattr(collector, "fspath") else ""
        )
        is_file = bool(name) and name.endswith(".py")
        if is_file:
            self.write("Began", nodeid=name, collects=True)
            self.watchdog.tell(b"+")
        yield
        if is_file:
            self.watchdog.tell(b"-")
            self.write("Ended", nodeid=name, collects=True)

    def pytest_runtest_protocol(self, item: Any) -> Generator[None, Any, None]:
        self.write("Began", nodeid=item.nodeid)
        self.watchdog.tell(b"+")
        if self.lines:
            self.lines.of(item.nodeid)
        began = time.perf_counter()
        yield
        if os.getpid() != self.process:  # a test that has forked
            return
        self.watchdog.tell(b"-")
        self.write("Ended", nodeid=item.nodeid, seconds=time.perf_counter() - began)

    def pytest_fixture_setup(self, fixturedef: Any, request: Any) -> Generator[None, Any, None]:
        if not self.lines or fixturedef.scope == "function":
            yield
            return
        before = self.lines.context
        self.lines.of(self.lines.fixture(fixturedef))
        yield
        self.lines.of(before)

    def pytest_runtest_call(self, item: Any) -> Generator[None, Any, None]:
        if self.lines:
            self.lines.used_by(item)
        yield

    def pytest_unconfigure(self) -> None:
        if self.lines and os.getpid() == self.process:
            self.lines.save()


class Lines:
    """Which lines of the code run in which test, by coverage's tracer."""

    def __init__(self, settings: dict[str, Any], root: str) -> None:
        sys.path.append(settings["tools"])
        import coverage

        self.root, self.out = root, settings["lines"]
        self.context = ""
        self.fixtures: dict[int, tuple[str, Any]] = {}
        self.users: dict[str, list[str]] = {}
        files = [os.path.join(root, path) for path in settings["code"]]
        self.coverage = coverage.Coverage(
            data_file=None, config_file=False, include=files, messages=False
        )
        with contextlib.suppress(Exception):  # of an old coverage, which has no other
            self.coverage.set_option("run:core", "ctrace")  # the newer ones know no contexts
        self.coverage.set_option("run:disable_warnings", ["no-data-collected", "no-ctracer"])
        self.coverage.start()

    def of(self, context: str) -> None:
        """What runs from now on is this test's, this fixture's, or (empty) that of all."""
        self.context = context
        self.coverage.switch_context(context)

    def fixture(self, fixturedef: Any) -> str:
        """The name of a fixture that several tests share."""
        # It is held, so that no other one gets its id.
        name, _ = self.fixtures.setdefault(id(fixturedef), (f"\0{len(self.fixtures)}", fixturedef))
        return name

    def used_by(self, item: Any) -> None:
        """Note the shared fixtures of a test. What they ran when they were set up, it sees."""
        found = getattr(getattr(item, "_fixtureinfo", None), "name2fixturedefs", {})
        for each in [each for several in found.values() for each in several]:
            if id(each) in self.fixtures:
                self.users.setdefault(self.fixtures[id(each)][0], []).append(item.nodeid)

    def save(self) -> None:
        self.coverage.stop()
        data = self.coverage.get_data()
        contexts = {"": 0}
        sets: dict[tuple[int, ...], int] = {}
        files = {}
        for file in sorted(data.measured_files()):
            lines = {}
            for line, names in data.contexts_by_lineno(file).items():
                found = sorted(contexts.setdefault(name, len(contexts)) for name in names)
                lines[line] = sets.setdefault(tuple(found), len(sets))
            files[os.path.relpath(file, self.root)] = lines
        said = {
            "contexts": list(contexts),
            "sets": list(sets),
            "files": files,
            "users": self.users,
        }
        with open(self.out, "wb") as file_out:
            file_out.write(zlib.compress(json.dumps(said).encode(), 1))


HOOKS: dict[str, dict[str, Any]] = {
    "pytest_load_initial_conftests": {},
    "pytest_collection_modifyitems": {"trylast": True},
    "pytest_make_collect_report": {"hookwrapper": True, "tryfirst": True},
    "pytest_runtest_protocol": {"hookwrapper": True, "tryfirst": True},
    "pytest_runtest_call": {"hookwrapper": True, "tryfirst": True},
    "pytest_fixture_setup": {"hookwrapper": True, "tryfirst": True},
    "pytest_unconfigure": {"trylast": True},
}


def main() -> int:
    settings = json.loads(sys.stdin.readline())
    # As in grading: what a test starts has a plain environment.
    for name in [name for name in os.environ if name.startswith(("PYTEST_", "PYTHON"))]:
        del os.environ[name]
    sys.path[:] = [folder for folder in sys.path if folder not in ("", ".")] + settings["site"]
    sys.dont_write_bytecode = True
    import pytest

    for method, options in HOOKS.items():
        pytest.hookimpl(**options)(getattr(Probe, method))

    def watch(write: Callable[..., None]) -> list[object]:
        if os.getcwd() in sys.path:  # the driver's; it comes back once pytest is ready
            sys.path.remove(os.getcwd())
        return [Probe(settings, write)]

    driver: dict[str, Any] = {"__name__": "driver"}
    exec(compile(settings["driver"], "<driver>", "exec"), driver)
    return int(driver["main"](watch))


if __name__ == "__main__":
    sys.exit(main())
