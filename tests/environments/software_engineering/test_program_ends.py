"""A tests' command runs under the watch as it would without, also where nothing can be watched."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from rolecraft.environments.software_engineering._program_ends import Ends, Watch, with_success
from rolecraft.sandboxes import Execution
from rolecraft.sandboxes.test_reports import TestReport
from rolecraft.sandboxes.test_runners import TestRun


def _run(folder: Path, *command: str) -> tuple[Watch, subprocess.CompletedProcess[str]]:
    """Without a C compiler: there is nothing in the PATH."""
    watch = Watch()
    done = subprocess.run(
        watch.command(command, sys.executable),
        env={"PATH": str(folder)},
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    return watch, done


def _told(watch: Watch, printed: str) -> tuple[str, Ends]:
    run, ends = watch.read(TestRun(TestReport(), Execution(exit_code=0, stderr=printed)))
    return run.printed, ends


@pytest.mark.parametrize(
    ("code", "ends_with"),
    [("pass", 0), ("raise SystemExit(8)", 8), ("import os; os.kill(os.getpid(), 9)", 137)],
)
def test_the_exit_code_is_the_commands(tmp_path: Path, code: str, ends_with: int) -> None:
    _, done = _run(tmp_path, sys.executable, "-c", code)
    assert done.returncode == ends_with


def test_without_a_compiler_the_command_runs_unwatched(tmp_path: Path) -> None:
    watch, done = _run(tmp_path, sys.executable, "-c", "print('built')")
    assert json.loads(done.stdout.removeprefix(f"{watch.token} ")) is None
    assert _told(watch, f"{done.stdout}{done.stderr}") == ("built\n", Ends())


def test_a_command_that_is_not_there_fails_as_a_shell_says_it(tmp_path: Path) -> None:
    _, done = _run(tmp_path, "no-such-command")
    assert done.returncode == 127
    assert "no-such-command" in done.stderr


def test_an_end_is_told_by_the_last_that_a_process_said() -> None:
    watch = Watch("t")
    lines = [
        *("t 1 began a b", "t 2 began c", "t 1 returned 0", "t 2 returned 1", "t 2 _exit 0"),
        *("t 3 began c", "t 3 began d", "t 3 exit 0", "x 4 began e", "t 5 exit 0", "nonsense"),
    ]
    said = json.dumps([line + "\n" for line in lines])
    printed = f"t {said}\nrest"
    left, ends = _told(watch, printed)
    assert left == "rest"
    assert ends == {("c", "returned 1, then _exit 0"): 1, ("c", "no word"): 1, ("d", "exit 0"): 1}
    assert with_success(ends).keys() == {("c", "returned 1, then _exit 0"), ("d", "exit 0")}


def test_a_run_that_was_cut_short_says_nothing_of_ends() -> None:
    assert _told(Watch("t"), "killed") == ("killed", Ends())
