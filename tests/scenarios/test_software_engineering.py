"""The scenario `software_engineering`, with a made-up package: no network is asked."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from rolecraft import ScriptedModel, Trajectory
from rolecraft.actions.codeact import SandboxTool, codeact_tools
from rolecraft.environments.software_engineering import Instance, SoftwareTasks
from rolecraft.environments.software_engineering.examples import (
    PackagesUnavailable,
    examples,
    fetch,
    packages,
    swe_examples,
)
from rolecraft.environments.software_engineering.examples.catalogue import suite
from rolecraft.environments.software_engineering.examples.solvers import (
    bash_solver,
    edits,
    null_solver,
    reference_solver,
)
from rolecraft.errors import UnknownName, UsageError
from rolecraft.messages import ToolCall
from rolecraft.models import Completion
from rolecraft.rewards import Signals
from rolecraft.roles.ready.codeact import CodeAct
from rolecraft.scenarios.software_engineering import rehearsal, scenario, software_engineering
from rolecraft.viewer import trajectory_page

BUG = """\
--- a/clock.py
+++ b/clock.py
@@ -1,4 +1,4 @@
 def after(hour, hours):
     \"\"\"The hour on a clock of 12, so many hours later.\"\"\"
-    return (hour + hours - 1) % 12 + 1
+    return (hour + hours) % 12
"""
BUG += " \n"  # an empty line of the code
CODE = '''def after(hour, hours):
    """The hour on a clock of 12, so many hours later."""
    return (hour + hours - 1) % 12 + 1


def before(hour, hours):
    return after(hour, -hours)
'''
TEST = """from clock import after, before

def test_noon():
    assert after(11, 1) == 12

def test_afternoon():
    assert after(11, 3) == 2
"""
SEEN = "from clock import before\n\ndef test_before():\n    assert before(5, 3) == 2\n"
PROGRAM = """\
from rolecraft.environments.software_engineering import Instance
from rolecraft.environments.software_engineering.examples.solvers import reference_solver
from rolecraft.scenarios.software_engineering import scenario

instance = {instance!r}


class OneTask:
    def sample(self, count, *, seed=0, split="train"):
        return [instance.task()] * count


repair = scenario(OneTask(), model=reference_solver([instance]))
"""
PROBLEM = "An hour after 11 o'clock the clock shows 0, where I expect 12."


@pytest.fixture
def instance(tmp_path: Path, needs_program: Any) -> Instance:
    needs_program("bwrap", package="bubblewrap")
    needs_program("git", package="git")
    source = tmp_path / "clock-1.0"
    (source / "tests").mkdir(parents=True)
    (source / "clock.py").write_text(CODE)
    (source / "tests" / "test_clock.py").write_text(TEST)
    (source / "tests" / "test_seen.py").write_text(SEEN)
    return Instance(
        id="clock-noon",
        problem=PROBLEM,
        patch=BUG,
        polarity="bug",
        source=str(source),
        fail_to_pass=("tests/test_clock.py::test_noon",),
        pass_to_pass=("tests/test_clock.py::test_afternoon", "tests/test_seen.py::test_before"),
    )


def signals_of(trajectory: Trajectory) -> Signals:
    return Signals(trajectory.signals)


async def test_the_reference_solver_works_through_the_tools_and_is_rewarded(instance) -> None:
    repair = scenario(SoftwareTasks([instance]))
    episode = await repair.play(instance.task(), model=reference_solver([instance]))
    signals = signals_of(episode.trajectory)
    assert signals["resolved"] == 1
    assert 0.9 <= episode.reward.value < 1, "its cost takes a little of it"
    assert episode.reward.shares["resolved"] == 1
    called = [event.data["tool"] for event in episode.trajectory.of("tool_call")]
    assert called == ["str_replace_editor", "str_replace_editor", "run_tests", "finish"]
    seen, graded = episode.trajectory.of("verify")
    assert (seen.content, seen.data["passed"]) == ("1 passed", True), "the hidden test is not there"
    assert graded.data["tests"]["to mend"]["passed"] == [*instance.fail_to_pass]


async def test_doing_nothing_earns_nothing(instance) -> None:
    repair = scenario(SoftwareTasks([instance]))
    episode = await repair.play(instance.task(), model=null_solver([instance]))
    assert signals_of(episode.trajectory)["resolved"] == 0
    assert episode.reward.value == 0


async def test_failing_at_length_earns_as_little_as_giving_up(instance) -> None:
    """A cost that failing runs pay would be a reward for refusing the task."""
    many = bash_solver([instance], lambda _: "seq -f 'a%g = 1' 500 >> clock.py", name="many")
    episode = await scenario(SoftwareTasks([instance])).play(instance.task(), model=many)
    assert signals_of(episode.trajectory)["lines.added"] == 500
    assert episode.reward.shares == {"gate:resolved": 0.0}


async def test_a_page_of_the_run_shows_issue_diff_and_tests(instance) -> None:
    repair = scenario(SoftwareTasks([instance]))
    episode = await repair.play(instance.task(), model=reference_solver([instance]))
    page = trajectory_page(episode.trajectory)
    for part in (
        "An hour after 11 o&#x27;clock",
        '<span class="add">+    return (hour + hours - 1) % 12 + 1\n</span>',
        "to mend: 1 test passed",
        "tests/test_clock.py::test_noon",
        "to keep: 2 tests passed",
    ):
        assert part in page


def test_a_scripted_role_solves_a_task_through_rolecraft_run(instance, tmp_path) -> None:
    program = tmp_path / "repair.py"
    program.write_text(PROGRAM.format(instance=instance))
    command = [sys.executable, "-m", "rolecraft.cli"]
    run = [*command, "run", f"{program}:repair", "--task", "clock-noon", "--journal", "run.jsonl"]
    done = subprocess.run(run, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "resolved = 1" in done.stdout
    show = [*command, "show", "run.jsonl", "--html", "page.html"]
    subprocess.run(show, cwd=tmp_path, capture_output=True, text=True, check=True)
    page = (tmp_path / "page.html").read_text("utf-8")
    assert "+    return (hour + hours - 1) % 12 + 1" in page
    assert "to mend: 1 test passed" in page


class CountLines(SandboxTool):
    """Count the lines of a file."""

    async def use(self, path: str) -> int:
        return (await self.sandbox.read(path)).count(b"\n")


class Mender(CodeAct):
    tools = [*codeact_tools(), CountLines]


async def test_a_role_and_a_tool_of_ones_own_play_an_instance(instance) -> None:
    edit = {"path": "clock.py", "old_str": "hours) % 12", "new_str": "hours - 1) % 12 + 1"}
    steps: list[tuple[str, dict[str, Any]]] = [
        ("count_lines", {"path": "clock.py"}),
        ("str_replace_editor", {"command": "str_replace", **edit}),
        ("finish", {"message": "Mended."}),
    ]
    script = [Completion(text="", tool_calls=[ToolCall(*step, "1")]) for step in steps]
    mend = scenario(
        SoftwareTasks([instance]), team=lambda: [Mender(model=ScriptedModel(list(script)))]
    )
    episode = await mend.play(instance.task())
    assert signals_of(episode.trajectory)["resolved"] == 1
    assert next(iter(episode.trajectory.of("tool_result"))).content == "7"


def test_the_scenarios_model_is_that_of_roles_that_name_none() -> None:
    mend = scenario(team=lambda: [Mender(), CodeAct(model="openai/o3")], model="openai/gpt-4o")
    assert [role.model for role in mend.team()] == ["openai/gpt-4o", "openai/o3"]
    assert [role.model for role in scenario(model="openai/gpt-4o").team()] == ["openai/gpt-4o"]


@pytest.mark.parametrize("team", [[Mender()], Mender, Mender()])
def test_a_team_that_makes_no_fresh_roles_is_refused_with_what_to_write(team: Any) -> None:
    with pytest.raises(UsageError, match=r"write `team=lambda: \[MyRole\(\)\]`"):
        scenario(team=team)


def test_a_team_of_one_role_without_a_list_is_refused_likewise() -> None:
    alone: Any = scenario(team=lambda: Mender())  # type: ignore[arg-type, return-value]
    with pytest.raises(UsageError, match=r"a list of fresh roles.*got <Mender 'Mender'>"):
        alone.team()


async def test_a_solver_says_that_it_does_not_know_an_issue(instance) -> None:
    with pytest.raises(UsageError, match="does not know this issue"):
        await scenario(SoftwareTasks([instance])).play(instance.task(), model=null_solver([]))


# --- the example set, as far as it lies in the repository -----------------------------------------


def test_there_are_20_examples_in_three_packages() -> None:
    found = [example.package for example in examples().values()]
    assert len(found) == 20
    assert {name: found.count(name) for name in packages()} == {
        "boltons": 7,
        "sqlparse": 6,
        "toolz": 7,
    }


@pytest.mark.parametrize("example", examples().values(), ids=lambda example: example.id)
def test_an_issue_names_neither_a_function_nor_a_place(example) -> None:
    """It is told as by somebody who has not read the code."""
    changed = set(re.findall(r"^[-+ ].*?(?:def|class) (\w+)", example.patch, re.MULTILINE))
    text = example.problem
    assert not {name for name in changed if re.search(rf"\b{name}\b", text)}
    for test in example.fail_to_pass:
        name = test.split("::")[-1].split("[")[0].removeprefix("test_")
        assert not re.search(rf"\b{name}\(", text)
    assert ".py" not in text
    assert not re.search(r"\bline \d", text)
    assert text.splitlines()[1] == "", "a title, then the rest"


@pytest.mark.parametrize("example", examples().values(), ids=lambda example: example.id)
def test_a_bug_is_small_and_its_tests_are_few_and_of_the_suite(example) -> None:
    (edit,) = edits(example.patch)
    assert edit.path.startswith(f"{example.package}/")
    assert "tests" not in Path(edit.path).parts
    changed = [line for line in example.patch.splitlines()[2:] if line[:1] in "+-"]
    assert 1 <= len(changed) <= 8
    assert 1 <= len(example.fail_to_pass) <= 5
    assert set(example.fail_to_pass) <= set(suite(example.package))


def test_edits_of_a_patch_turn_one_text_into_the_other() -> None:
    (forth,) = edits(BUG)
    (back,) = edits(BUG, reverse=True)
    assert (forth.old, forth.new) == (back.new, back.old)
    assert forth.old in CODE
    assert CODE.replace(forth.old, forth.new) != CODE
    ast.parse(CODE.replace(forth.old, forth.new))


def test_making_the_scenarios_fetches_nothing(monkeypatch) -> None:
    monkeypatch.setattr(subprocess, "run", None)
    assert software_engineering.name == "software_engineering"
    assert rehearsal().name == "rehearsal"
    with pytest.raises(UnknownName, match="Did you mean 'toolz__seed-has-no-effect'"):
        swe_examples().task("toolz__seed-has-effect")


def test_without_a_network_the_error_says_what_is_missing_and_what_to_do(
    tmp_path, monkeypatch
) -> None:
    """pip is the real one; its index is a port at which nobody listens."""
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    for name in ("PIP_EXTRA_INDEX_URL", "PIP_FIND_LINKS", "PIP_NO_INDEX"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(PackagesUnavailable) as raised:
        fetch(tmp_path)
    assert raised.value.missing == ("boltons==25.0.0", "sqlparse==0.5.3", "toolz==1.0.0")
    assert f"examples {tmp_path}" in str(raised.value)
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_is_not_the_published_one_is_refused(tmp_path) -> None:
    for pin in packages().values():
        (tmp_path / pin.file).write_bytes(b"something else")
    with pytest.raises(UsageError, match=r"boltons==25\.0\.0 was published with"):
        fetch(tmp_path)
