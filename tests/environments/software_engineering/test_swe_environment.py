"""The environment: what roles get, what is measured, and what becomes of failures of its own."""

from __future__ import annotations

import asyncio
import contextlib
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import pytest

from rolecraft import Action, Role
from rolecraft.environments.software_engineering import Grader, SoftwareEnvironment, SoftwareTasks
from rolecraft.environments.software_engineering.instances import Unsupported
from rolecraft.errors import SandboxError, UsageError
from rolecraft.rewards import Signals
from rolecraft.sandboxes import Bubblewrap, LocalProcess


class Edit(Action):
    """Write files of the sandbox, and say what is there."""

    files: dict[str, str]
    seen: list[str] = []

    async def run(self) -> None:
        sandbox = self.role.rc.env.sandbox
        listed = await sandbox.run(["find", ".", "-name", "*.py"])
        self.seen.append(listed.stdout)
        for path, content in self.files.items():
            await sandbox.write(path, content)


def played(task, files, grader, **options):
    role = Role(name="Ann", actions=[Edit(files)])
    return SoftwareEnvironment(task, [role], grader=grader, **options)


async def test_a_fix_is_resolved_and_measured(instance, grader, mended) -> None:
    env = played(instance.task(), {"sums/core.py": mended}, grader)
    signals = Signals((await env.episode()).signals)
    assert signals["resolved"] == 1
    assert signals["fail_to_pass.passed"] == len(instance.fail_to_pass)
    assert signals["pass_to_pass.passed"] == len(instance.pass_to_pass)
    assert signals["fail_to_pass.failed"] == signals["pass_to_pass.failed"] == 0
    assert signals["patch.applies"] == 1
    assert (signals["files.touched"], signals["edits.dropped"], signals["tampering"]) == (1, 0, 0)
    assert (signals["lines.added"], signals["lines.removed"]) == (1, 1)
    assert signals["complexity.before"] == signals["complexity.after"] == 3
    assert signals["turns"] == 1
    assert signals["seconds"] > 0


async def test_who_does_nothing_has_resolved_nothing(instance, grader) -> None:
    signals = Signals((await played(instance.task(), {}, grader).episode()).signals)
    assert signals["resolved"] == 0
    assert signals["fail_to_pass.failed"] == len(instance.fail_to_pass)
    assert signals["files.touched"] == 0


@pytest.fixture
def bare():
    """An environment whose Python has no pytest: `-S` leaves out what is installed."""
    with tempfile.TemporaryDirectory(dir="/var/tmp", prefix="rolecraft-test-") as place:
        Path(place).chmod(0o755)  # else root's sandboxes take another Python
        for name in ("python", "python3"):
            file = Path(place, "bin", name)
            file.parent.mkdir(exist_ok=True)
            file.write_text(f'#!/bin/sh\nexec {sys.executable} -S -E "$@"\n')
            file.chmod(0o755)
        yield place


async def test_a_python_that_is_not_in_the_sandbox_is_told_before_any_role_acts(
    instance, tmp_path
) -> None:
    """The files of the sandbox could not be listed, it said: `exec: python3.99: not found`."""
    (tmp_path / "env" / "lib" / "python3.99" / "site-packages").mkdir(parents=True)
    unknown = replace(instance, environment=str(tmp_path / "env"))
    environment = played(unknown.task(), {}, Grader(LocalProcess()))
    with pytest.raises(Unsupported, match=r"needs `python3\.99` in the sandbox, since"):
        await environment.episode()
    assert not [*environment.trajectory.of("action")]


async def test_a_python_without_pytest_is_told_before_any_role_acts(instance, bare) -> None:
    """Else a model is paid for work that nobody can grade."""
    env = played(replace(instance, environment=bare).task(), {}, Grader(LocalProcess()))
    with pytest.raises(Unsupported, match="needs pytest in its environment `/var/tmp/role"):
        await env.episode()
    assert [event.kind for event in env.trajectory.events] == ["error", "stop"]


async def test_a_test_that_was_not_run_is_told_apart_from_one_that_failed(
    instance, grader, mended
) -> None:
    """Without a reference nobody knows whether a fix could bring it into being."""
    wanted = (*instance.fail_to_pass, "tests/test_core.py::test_mean_of_four[numbers7]")
    task = replace(instance, fail_to_pass=wanted, patch="").task()
    trajectory = await played(task, {"sums/core.py": mended}, grader).episode()
    (verdict,) = trajectory.of("verify")
    said = "failed: tests/test_core.py::test_mean_of_four[numbers7] (no test of this id was run)"
    assert said in verdict.content
    assert verdict.content.count("(no test") == 1


@pytest.mark.parametrize("provider", [Bubblewrap, LocalProcess])
@pytest.mark.parametrize("own", [True, False], ids=["venv", "folder"])
async def test_python_and_pytest_of_the_shell_are_those_of_the_instance(
    instance, bases, provider, own
) -> None:
    """`python` was not found, or was the system's, where a sandbox cannot read the venv's own."""
    task = (replace(instance, environment=None) if own else instance).task()
    env = SoftwareEnvironment(task, grader=Grader(provider(), bases=bases))
    async with contextlib.aclosing(env):
        await env.setup()
        shell = await env.sandbox.shell()
        for python in ("python", "python3"):
            done = await shell.run(f"{python} -c 'import sys, pytest; print(pytest.__file__)'")
            packages = Path(pytest.__file__).parents[1] if own else instance.environment
            assert done.stdout.startswith(str(packages)), done
        done = await shell.run("pytest --version")
        assert done.exit_code == 0, done
        assert pytest.__version__ in done.stdout + done.stderr
        # Of the same version, whatever other ones there are beside it.
        version = f"{sys.version_info.major}.{sys.version_info.minor}"
        done = await shell.run("python --version")
        assert not own or f"Python {version}" in done.stdout, done


async def test_the_hidden_tests_are_not_in_the_sandbox_of_the_roles(instance, grader) -> None:
    env = played(instance.task(), {}, grader)
    await env.episode()
    (seen,) = env.roles["Ann"].actions[0].seen
    assert "./sums/core.py" in seen
    assert "test" not in seen


async def test_patch_and_results_can_be_read_in_the_record(instance, grader, mended) -> None:
    files = {"sums/core.py": mended, "tests/conftest.py": "import os"}
    trajectory = await played(instance.task(), files, grader).episode()
    (patch,) = trajectory.of("artifact")
    assert patch.artifact.name == "patch.diff"
    assert "+    return total(numbers) / len(numbers)" in patch.content
    (verdict,) = trajectory.of("verify")
    tests = verdict.data.pop("tests")
    assert tests["to mend"] == {"passed": [*instance.fail_to_pass], "failed": []}
    assert tests["to keep"] == {"passed": len(instance.pass_to_pass), "failed": []}
    assert verdict.data["passed"]
    assert verdict.data["verdict"] == "full"
    assert "not graded: tests/conftest.py, a hidden test" in verdict.content


async def test_what_is_taken_for_litter_is_in_the_record(instance, grader, mended) -> None:
    """Its name alone says so, and it may have been meant."""
    files = {"sums/core.py": mended, ".config/x.toml": "a = 1", "sums.egg-info/PKG-INFO": "x"}
    trajectory = await played(instance.task(), files, grader).episode()
    (verdict,) = trajectory.of("verify")
    assert "so not graded: .config, sums.egg-info" in verdict.content
    assert Signals(trajectory.signals)["files.touched"] == 1


async def test_the_loop_goes_on_while_a_large_patch_is_measured(instance, grader) -> None:
    """Others play in the same loop. Its own thread's time counts, whoever else has the machine."""
    code = "".join(f"x = {n % 7}\n" for n in range(60_000))
    env = played(instance.task(), {"sums/core.py": code}, grader)
    over, longest = False, 0.0

    async def watch() -> None:
        nonlocal longest
        while not over:
            before = time.thread_time()
            await asyncio.sleep(0.01)
            longest = max(longest, time.thread_time() - before)

    watching = asyncio.create_task(watch())
    signals = Signals((await env.episode()).signals)
    over = True
    await watching
    assert signals["lines.added"] > 59_000
    assert longest < 2


async def test_a_failure_of_the_infrastructure_is_no_signal(instance, bases, mended) -> None:
    """A sandbox that cannot be made says nothing about the patch: its reward is no 0."""

    class Broken:
        walls = Bubblewrap().walls

        async def create(self, spec=None):
            raise SandboxError("The disk is full.")

    grader = Grader(Broken(), bases=bases)
    env = played(instance.task(), {"sums/core.py": mended}, grader, provider=Bubblewrap())
    trajectory = await env.episode()
    signals = Signals(trajectory.signals)
    assert "resolved" not in signals
    assert "fail_to_pass.failed" not in signals
    (error,) = trajectory.of("error")
    assert (error.data["type"], error.content) == ("InfrastructureFailure", "The disk is full.")


async def test_an_episode_that_was_over_comes_to_the_same_signals(
    instance, grader, mended, tmp_path
) -> None:
    env = SoftwareEnvironment(
        instance.task(),
        [Role(name="Ann", actions=[Repeated({"sums/core.py": mended})])],
        grader=grader,
        journal=tmp_path / "other.jsonl",
    )
    over = await env.episode()
    env = SoftwareEnvironment(
        instance.task(),
        [Role(name="Ann", actions=[Repeated({"sums/core.py": mended})])],
        grader=grader,
    )
    recovered = await env.recover(tmp_path / "other.jsonl")
    assert recovered.signals == over.signals


class Repeated(Edit):
    """It changes the sandbox, which is set up again."""

    repeat = "freely"


def test_the_sandbox_is_there_during_the_episode_only(instance, grader) -> None:
    with pytest.raises(UsageError, match="from `setup` to `aclose`"):
        _ = SoftwareEnvironment(instance.task(), grader=grader).sandbox


def test_splits_do_not_overlap_and_the_same_seed_gives_the_same_tasks(instance) -> None:
    from dataclasses import replace

    tasks = SoftwareTasks(replace(instance, id=f"sums-{n}") for n in range(50))
    train = {task.id for task in tasks.sample(200, split="train")}
    test = {task.id for task in tasks.sample(200, split="test")}
    assert train
    assert test
    assert not train & test
    assert tasks.sample(20, seed=1) == tasks.sample(20, seed=1)
    assert tasks.sample(20, seed=1) != tasks.sample(20, seed=2)


def test_the_error_of_an_empty_split_names_the_ways_out(instance) -> None:
    with pytest.raises(UsageError, match=r"held_out=1.*--task") as error:
        SoftwareTasks([instance], held_out=0).sample(1, split="test")
    assert "'test'" in str(error.value)
