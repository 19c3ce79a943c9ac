"""A test whose program is missing is skipped by name, and never in CI."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture
def ci(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    monkeypatch.delenv("CI", raising=False)
    return monkeypatch


def test_a_program_that_is_there_is_found(needs_program: Any) -> None:
    assert needs_program("no-such-shell", "sh", package="dash").is_file()


def test_without_its_program_a_test_is_skipped_and_says_what_to_install(
    needs_program: Any, ci: pytest.MonkeyPatch
) -> None:
    with pytest.raises(pytest.skip.Exception, match="needs `nosuch` of the Debian package `nos`"):
        needs_program("nosuch", "nosuch2", package="nos")


@pytest.mark.parametrize("value", ["true", "1"])
def test_in_ci_a_missing_program_is_a_failure(
    needs_program: Any, ci: pytest.MonkeyPatch, value: str
) -> None:
    ci.setenv("CI", value)
    with pytest.raises(pytest.fail.Exception, match=r"package `nos`; `\.ci/run` installs it"):
        needs_program("nosuch", package="nos")


def test_ci_installs_every_package_that_a_test_needs() -> None:
    """So that no test fails there for want of a program that nobody named.

    Tests in containers do not run there (`make test-containers`).
    """
    sources = [
        path.read_text("utf-8")
        for path in sorted((ROOT / "tests").rglob("*.py"))
        if path != Path(__file__)
    ]
    calls = [
        match
        for source in sources
        if "mark.containers" not in source
        for match in re.findall(r"needs_program\(\s*\"[^)]*?package=\"([\w.+-]+)\"", source)
    ]
    installed = re.findall(
        r"^  \"?\S+:([\w.+-]+)\"?$", (ROOT / ".ci" / "run").read_text("utf-8"), re.M
    )
    assert set(calls) <= set(installed)
