"""Runs pytest again and again, each time in a child of a process that has imported it.

Never imported: its text is handed to `python -c` in a sandbox (see `warm.py`), so no file of it
lies in the work folder. The first line of standard input has the settings. Then each order is a
file, one JSON line, whose name the settings say. What came of it is another, of packed JSON, and an
end of line on the standard output says that it is there: of what is printed, a sandbox elsewhere
tells little. All of it must run on every Python from 3.8 on: that of the project.

Of the project this process imports nothing, so that a child runs what lies in the work folder. A
child is a session of its own with limits of its own. When it is over, all that it has started is
killed, and the work folder and the temporary one are made what they were before.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import importlib.util
import json
import os
import resource
import secrets
import select
import shutil
import signal
import stat
import sys
import tempfile
import time
import zlib

TYPE_CHECKING = False  # so that `typing` is not imported
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

IDLE = 0.002
"""Seconds between two looks for an order."""
TICK = 0.05
"""Seconds between two looks at a child that says nothing."""
MOST_HELD = 256 * 2**20
"""Bytes of the work folder that are kept to be put back."""
MOST_REPORT = 64 * 2**20
COMPARED = (str, bytes, list, tuple, dict, set, frozenset)
MOST_COMPARED = 600
"""Characters of two values that are not equal; pytest cuts what is longer than 640."""
MOST_OUTPUT = 4000
"""Bytes of a report, and of the end of what was printed."""


class Watch:
    """The plug-in of one run: which tests, until when."""

    def __init__(self, settings: dict[str, Any], order: dict[str, Any]) -> None:
        self.write: Any = None
        self.path = [os.path.abspath(each) for each in settings["path"]]
        self.collecting: float = settings["collecting"]
        self.set_aside = set(settings["set_aside"])
        self.wanted = None if order["tests"] is None else set(order["tests"])
        self.counted = set(settings["passing"])
        self.most: int = order["most"]
        self.seconds: float = settings["seconds"]
        self.slow: dict[str, float] = settings["slow"]
        self.failed: set[str] = set()
        self.session: Any = None

    def pytest_sessionstart(self, session: Any) -> None:
        self.session = session

    def pytest_load_initial_conftests(self) -> None:
        sys.path[:0] = self.path
        signal.setitimer(signal.ITIMER_PROF, self.collecting)

    def pytest_collectreport(self, report: Any) -> None:
        if report.outcome == "failed":
            self.write("Validation", unloaded=report.nodeid)

    def pytest_collection_modifyitems(self, config: Any, items: list[Any]) -> None:
        gone = [item for item in items if not self.wants(item.nodeid)]
        if gone:
            items[:] = [item for item in items if self.wants(item.nodeid)]
            config.hook.pytest_deselected(items=gone)

    def wants(self, test: str) -> bool:
        if self.wanted is not None:
            return test in self.wanted
        return test not in self.set_aside

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        # Processor time, so that it is the same on a busy machine. The signal ends the process.
        signal.setitimer(signal.ITIMER_PROF, self.slow.get(nodeid, 0.0) + self.seconds)

    def pytest_runtest_logfinish(self) -> None:
        signal.setitimer(signal.ITIMER_PROF, self.seconds)

    def pytest_assertrepr_compare(self, op: str, left: object, right: object) -> list[str] | None:
        """Both values whole, where pytest's own way would cut each to 30 characters."""
        if op != "==" or not isinstance(left, COMPARED) or not isinstance(right, COMPARED):
            return None
        try:
            values = repr(left), repr(right)
        except Exception:  # of what they hold; pytest has words for that
            return None
        long = max(map(len, values)) > 30 and sum(map(len, values)) <= MOST_COMPARED
        return [" == ".join(values)] if long else None

    def pytest_exception_interact(self, call: Any) -> None:
        if isinstance(call.excinfo.value, MemoryError):
            self.stop("memory")

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.outcome == "failed" and report.nodeid in self.counted:
            self.failed.add(report.nodeid)
            if len(self.failed) > self.most:
                self.stop("stopped")

    def stop(self, why: str) -> None:
        if not self.session.shouldstop:
            self.session.shouldstop = why
            self.write("Validation", stopped=why)


class Server:
    """Takes orders until it is killed."""

    def __init__(self, settings: dict[str, Any], out: int) -> None:
        self.settings, self.out = settings, out
        self.root = os.getcwd()
        self.temporary = tempfile.gettempdir()
        self.compiled = os.path.join(self.temporary, settings["compiled"])
        self.order = os.path.join(self.root, settings["order"])
        self.answer = os.path.join(self.root, settings["answer"])
        self.number = 0
        os.makedirs(self.compiled, exist_ok=True)
        # What lies there at first is mounted there: an environment below `/tmp`, say.
        self.temporaries = {
            folder: set(os.listdir(folder))
            for folder in (self.temporary, "/dev/shm")
            if os.path.isdir(folder)
        }
        self.tree: dict[str, tuple[int, ...]] = {}
        self.held: dict[str, bytes] = {}
        # All processes that this one sees are its own: the sandbox has a namespace for them.
        self.alone = os.getpid() == 2 and os.getppid() == 1

    def serve(self) -> None:
        sys.pycache_prefix = self.compiled
        sys.path += self.settings["site"]
        self.load_runner()
        gc.collect()
        if hasattr(gc, "freeze"):  # what is there for good is not looked at again
            gc.freeze()
        self.say(ready=True)
        while True:
            self.say(**self.done(self.next_order()))

    def load_runner(self) -> None:
        """Import pytest and what comes with it, but nothing of the project."""
        import pytest
        from _pytest.config import default_plugins

        for name in default_plugins:
            importlib.import_module("_pytest." + name)
        pytest.hookimpl(trylast=True)(Watch.pytest_collection_modifyitems)

    def next_order(self) -> dict[str, Any]:
        text = b""
        while not text.endswith(b"\n"):  # it is being written
            time.sleep(IDLE)
            with contextlib.suppress(OSError), open(self.order, "rb") as file:
                text = file.read()
        os.unlink(self.order)
        with contextlib.suppress(FileNotFoundError):  # of this server, or of the one before
            os.unlink(self.answer)
        found: dict[str, Any] = json.loads(text)
        return found

    def say(self, **fields: Any) -> None:
        with open(self.answer, "wb") as file:
            file.write(zlib.compress(json.dumps(fields).encode(), 1))
        os.write(self.out, b"\n")

    def done(self, order: dict[str, Any]) -> dict[str, Any]:
        """Carry out one order."""
        first = not self.tree  # it is the clean code, and its bytecode is kept
        if first:
            self.tree = self.entries()
            self.hold()
        self.put(order["texts"])
        report, reporter = os.pipe()
        token, printed = secrets.token_hex(16), os.path.join(self.temporary, secrets.token_hex(8))
        child = os.fork()
        if child == 0:
            try:
                os.close(report)
                self.run(order, reporter, token, printed, keep=first)
            except BaseException as error:
                os.write(2, str(error).encode("utf-8", "replace"))
            finally:
                os._exit(70)
        os.close(reporter)
        try:
            text, ended, late = self.watched(child, report, order)
        finally:
            os.close(report)
        with contextlib.suppress(OSError):
            os.killpg(child, signal.SIGKILL)
        if self.alone:
            with contextlib.suppress(OSError):
                os.kill(-1, signal.SIGKILL)
        if ended is None:
            _, status, used = os.wait4(child, 0)
            ended = status, used.ru_utime + used.ru_stime
        status, seconds = ended
        said = tail(printed)
        with contextlib.suppress(OSError):
            os.unlink(printed)
        return {
            "id": order["id"],
            "token": token,
            "late": late,
            "code": os.WEXITSTATUS(status) if os.WIFEXITED(status) else -os.WTERMSIG(status),
            "seconds": seconds,
            "report": text.decode("utf-8", "replace"),
            "printed": said,
            "as_before": self.restored(),
        }

    # --- the work folder -----------------------------------------------------------------------

    def entries(self) -> dict[str, tuple[int, ...]]:
        """All that is in the work folder: by path what kind it is, how long and how old.

        On the way folders get the rights that they had, and new ones those to be deleted.
        """
        found: dict[str, tuple[int, ...]] = {}
        left = [self.root]
        while left:
            with os.scandir(left.pop()) as entries:
                for entry in entries:
                    seen = entry.stat(follow_symlinks=False)
                    if not entry.is_dir(follow_symlinks=False):
                        found[entry.path] = (seen.st_mode, seen.st_size, seen.st_mtime_ns)
                        continue
                    mode = self.tree.get(entry.path, (seen.st_mode | stat.S_IRWXU,))[0]
                    if self.tree and stat.S_ISDIR(mode) and mode != seen.st_mode:
                        os.chmod(entry.path, stat.S_IMODE(mode))
                    found[entry.path] = (mode if self.tree else seen.st_mode,)
                    left.append(entry.path)
        return found

    def hold(self) -> None:
        """Keep the files, unless they are too many."""
        files = {path: each[1] for path, each in self.tree.items() if len(each) > 1}
        if sum(files.values()) > MOST_HELD:
            return
        for path in files:
            with contextlib.suppress(OSError):  # one that may not be read
                if os.path.islink(path):
                    self.held[path] = os.fsencode(os.readlink(path))
                else:
                    with open(path, "rb") as file:
                        self.held[path] = file.read()

    def put(self, texts: dict[str, str]) -> None:
        """Write the changed files."""
        for path, text in texts.items():
            place = os.path.join(self.root, path)
            if place in self.tree and place not in self.held:
                with open(place, "rb") as file:
                    self.held[place] = file.read()
            os.makedirs(os.path.dirname(place), exist_ok=True)
            with open(place, "wb") as file:
                file.write(text.encode())
            # Python takes a compiled file for a source of the same length and second.
            self.number += 1
            os.utime(place, (10**9 + self.number, 10**9 + self.number))

    def restored(self) -> bool:
        """Undo what an order has done to the disk. Whether the work folder is as it was."""
        try:
            if self.alone:  # else they are not ours alone
                self.empty_temporaries()
            now = self.entries()
            new = [path for path in now if kind(now[path]) != kind(self.tree.get(path))]
            for path in sorted(new, reverse=True):  # what is in a folder before the folder
                remove(path)
            wrong = [path for path in self.tree if path in new or now.get(path) != self.tree[path]]
            for path in sorted(wrong):
                self.put_back(path)
            return not (new or wrong) or self.entries() == self.tree
        except (OSError, KeyError):  # a file that is not held
            return False

    def put_back(self, path: str) -> None:
        mode, *rest = self.tree[path]
        if not rest:
            os.makedirs(path, exist_ok=True)
        elif stat.S_ISLNK(mode):
            os.symlink(self.held[path], path)
        else:
            with open(path, "wb") as file:
                file.write(self.held[path])
        if not stat.S_ISLNK(mode):
            os.chmod(path, stat.S_IMODE(mode))
        if rest:
            os.utime(path, ns=(rest[1], rest[1]), follow_symlinks=False)

    def empty_temporaries(self) -> None:
        """Delete what the tests have left outside of the work folder."""
        for folder, kept in self.temporaries.items():
            for name in set(os.listdir(folder)) - kept:
                remove(os.path.join(folder, name))

    # --- the child -----------------------------------------------------------------------------

    def watched(
        self, child: int, report: int, order: dict[str, Any]
    ) -> tuple[bytes, tuple[int, float] | None, bool]:
        """The report of a child; its status and seconds, if it has ended; whether it is late."""
        os.set_blocking(report, False)
        text, began = bytearray(), time.monotonic()
        heard = began
        while True:
            open_yet = True
            if select.select([report], [], [], TICK)[0]:
                piece = os.read(report, 2**16)
                open_yet = bool(piece)
                if piece:
                    text += piece
                    heard = time.monotonic()
                    if len(text) < MOST_REPORT:
                        continue
            elif runs(child):  # it waits for nothing but a processor, so this time does not count
                heard += TICK
            done, status, used = os.wait4(child, os.WNOHANG)
            if done:
                with contextlib.suppress(BlockingIOError):  # what another process holds open
                    while piece := os.read(report, 2**16):
                        text += piece
                return bytes(text), (status, used.ru_utime + used.ru_stime), False
            now = time.monotonic()
            silent = now - heard > self.settings["silent"]
            if silent or now - began > order["seconds"] or len(text) >= MOST_REPORT:
                return bytes(text), None, True
            if not open_yet:
                time.sleep(IDLE)

    def run(
        self, order: dict[str, Any], reporter: int, token: str, printed: str, *, keep: bool
    ) -> None:
        """In the child: run pytest, and end."""
        os.setsid()
        own, given = os.pipe()
        os.write(given, token.encode() + b"\n")
        os.close(given)
        out = os.open(printed, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        for target, fd in enumerate((own, reporter, out)):
            os.dup2(fd, target)
            os.close(fd)
        os.close(self.out)
        sys.stdin, sys.stdout, sys.stderr = open(0), open(1, "w"), open(2, "w")  # noqa: SIM115
        resource.setrlimit(resource.RLIMIT_AS, (self.settings["memory"],) * 2)
        watch = Watch(self.settings, order)
        driver: dict[str, Any] = {"__name__": "driver"}
        exec(compile(self.settings["driver"], "<driver>", "exec"), driver)

        def plugins(write: Callable[..., None]) -> list[object]:
            if self.root in sys.path:  # the driver's: as in grading, the project's own paths count
                sys.path.remove(self.root)
            sys.dont_write_bytecode = not keep
            watch.write = write
            return [watch]

        sys.argv = ["pytest", *self.settings["options"], *order["places"]]
        if importlib.util.find_spec("xdist"):
            sys.argv.append("-n0")  # its workers would be others' children
        status = int(driver["main"](plugins))
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError, AttributeError):
                stream.flush()
        os._exit(status)


def runs(process: int) -> bool:
    """Whether a process could go on at once."""
    try:
        with open(f"/proc/{process}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()[0] == b"R"
    except (OSError, IndexError):
        return False


def kind(entry: tuple[int, ...] | None) -> int:
    """Whether it is a file, a folder, a link; 0 if it is not there."""
    return stat.S_IFMT(entry[0]) if entry else 0


def remove(path: str) -> None:
    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path)
    else:
        os.unlink(path)


def tail(path: str) -> str:
    try:
        with open(path, "rb") as file:
            file.seek(max(0, os.path.getsize(path) - MOST_OUTPUT))
            return file.read(MOST_OUTPUT).decode("utf-8", "replace")
    except OSError:
        return ""


def main() -> None:
    settings = json.loads(sys.stdin.readline())
    # As in grading: what a test starts has a plain environment.
    for name in [name for name in os.environ if name.startswith(("PYTEST_", "PYTHON"))]:
        del os.environ[name]
    out = os.dup(1)
    nothing = os.open(os.devnull, os.O_RDWR)
    for target in range(3):  # the standard output has answers, and nothing that anybody prints
        os.dup2(nothing, target)
    os.close(nothing)
    Server(settings, out).serve()


if __name__ == "__main__":
    main()
