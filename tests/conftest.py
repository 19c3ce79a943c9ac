"""Shared fixtures: real labelled data, programs of the system, and no real models by accident."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

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
