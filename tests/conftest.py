"""Shared fixtures: real labelled data, programs of the system, and no real models by accident."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import importlib.util
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, Protocol, TypeVar

import pytest
from loguru import logger

from rolecraft.models import forbid_real_models

# Where Debian keeps programs that are not on the search path.
OFF_THE_PATH = {"postgresql": "/usr/lib/postgresql/*/bin"}


# A job that a shell runs in the background ignores SIGINT, and so would every process that a test
# starts in order to interrupt it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# How long one example takes says more of a busy machine than of what is tested.
with contextlib.suppress(ImportError):  # the environment of vLLM has no hypothesis
    from hypothesis import settings

    settings.register_profile("rolecraft", settings.default, deadline=None)
    settings.load_profile("rolecraft")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--data-dir",
        default=str(Path(__file__).parents[2] / "shared" / "data"),
        help="folder with real logs and reference values; tests that need it skip if absent",
    )


@pytest.fixture(scope="session")
def data_dir(request: pytest.FixtureRequest) -> Path:
    folder = Path(request.config.getoption("--data-dir"))
    if not folder.is_dir():
        pytest.skip(f"no data folder at {folder} (option --data-dir)")
    return folder


class NeedsProgram(Protocol):
    def __call__(self, *names: str, package: str) -> Path: ...


def find_program(*names: str, package: str) -> Path | None:
    """The first program of these names, on the search path or where its package hides it."""
    for name in names:
        if found := shutil.which(name):
            return Path(found).resolve()
        hidden = OFF_THE_PATH.get(package, "").lstrip("/")
        if hidden and (places := sorted(Path("/").glob(f"{hidden}/{name}"))):
            return places[-1]
    return None


@pytest.fixture(scope="session")
def needs_program() -> NeedsProgram:
    """`needs_program("initdb", package="postgresql")`: the path of a program that a test runs.

    Of several names the first that is there. Where none is, the test is skipped by the name of the
    Debian package; with `CI=true`, where nothing may be left out, it fails.
    """

    def needed(*names: str, package: str) -> Path:
        found = find_program(*names, package=package)
        if found is None:
            reason = f"needs `{names[0]}` of the Debian package `{package}`"
            if os.environ.get("CI") in ("true", "1"):
                pytest.fail(f"{reason}; `.ci/run` installs it: add it to its list")
            pytest.skip(reason)
        return found

    return needed


@pytest.fixture(scope="session")
def bare_environment() -> Iterator[Path]:
    """A folder of packages with pytest and nothing else, so that it starts fast."""
    # Sandboxes have a `/tmp` of their own.
    with tempfile.TemporaryDirectory(dir="/var/tmp", prefix="rolecraft-test-") as place:
        folder = Path(place)
        folder.chmod(0o755)
        for name in ("pytest", "_pytest", "pluggy", "iniconfig", "packaging", "pygments"):
            found = importlib.util.find_spec(name)
            assert found is not None
            assert found.origin is not None
            shutil.copytree(Path(found.origin).parent, folder / name)
        (folder / "py.py").write_text("import _pytest._py.path as path\n")
        yield folder


Size = TypeVar("Size")


class Growth(Protocol):
    def __call__(
        self,
        work: Callable[[Size], Callable[[], object]],
        small: Size,
        large: Size,
        *,
        at_most: float,
        clock: Callable[[], float] = ...,
    ) -> None: ...


@pytest.fixture
def growth() -> Growth:
    """`growth(work, 500, 5_000, at_most=20)`: ten times as much takes at most 20 times as long.

    `work(size)` makes what is needed and returns what is measured: seconds of processor time, by
    `clock`, with no collection of garbage in them. Whatever else the machine does makes some tries
    slow and none too fast, so the least of three counts for either size, and of up to 18 where that
    is above `at_most`. Choose sizes of which the small one takes some 5 ms; less than one
    millisecond counts as one.
    """

    def check(
        work: Callable[[Size], Callable[[], object]],
        small: Size,
        large: Size,
        *,
        at_most: float,
        clock: Callable[[], float] = time.process_time,
    ) -> None:
        def seconds(size: Size) -> float:
            measured = work(size)
            gc.disable()
            try:
                began = clock()
                measured()
                return clock() - began
            finally:
                gc.enable()

        few = many = float("inf")
        for tried in range(18):
            if tried % 3 == 0:
                gc.collect()
            few, many = min(few, seconds(small)), min(many, seconds(large))
            if tried >= 2 and many <= at_most * max(few, 0.001):
                return
        pytest.fail(
            f"Of size {small!r} it took {few:.4f} s of processor time, of size {large!r} {many:.4f}"
            f" s: {many / max(few, 0.001):.1f} times as long, and at most {at_most:g} is right."
        )

    return check


@pytest.fixture
def longest_wait() -> Callable[..., Awaitable[float]]:
    """By how many seconds a task that wakes every 2 ms was late, at the worst, until `over`.

    Without `over` it measures one second in which nothing else is done: a busy machine makes it
    late then, too, and a test allows for that.
    """

    async def measure(over: asyncio.Event | None = None) -> float:
        if over is None:
            over = asyncio.Event()
            asyncio.get_running_loop().call_later(1, over.set)
        worst = 0.0
        while not over.is_set():
            began = time.perf_counter()
            await asyncio.sleep(0.002)
            worst = max(worst, time.perf_counter() - began - 0.002)
        return worst

    return measure


@pytest.fixture
def without_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """As for somebody who has no key of any provider, in a program that has not imported LiteLLM.

    What a test of this process imported before counts as that program's, and may have a key.
    """
    for name in list(os.environ):
        if name.endswith(("_API_KEY", "_AUTH_TOKEN", "_BASE_URL", "_API_BASE")):
            monkeypatch.delenv(name)
    monkeypatch.delitem(sys.modules, "litellm", raising=False)


@pytest.fixture
def logged() -> Iterator[list[Any]]:
    """What Rolecraft logs during the test, as loguru's messages: strings with a `record`."""
    messages: list[Any] = []
    sink = logger.add(messages.append, level="INFO", format="{message}")
    logger.enable("rolecraft")
    yield messages
    logger.disable("rolecraft")
    logger.remove(sink)


@pytest.fixture(autouse=True)
def _no_real_models() -> Iterator[None]:
    with forbid_real_models():
        yield
