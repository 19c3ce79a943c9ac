"""What is known of tests from gradings before: it saves time, and changes no verdict."""

from __future__ import annotations

import dataclasses
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rolecraft.environments.software_engineering._known import Known, Latest
from rolecraft.environments.software_engineering.bases import Bases
from rolecraft.environments.software_engineering.grading import Grader
from rolecraft.environments.software_engineering.patches import Change
from rolecraft.sandboxes import Bubblewrap, LiveSandbox, SandboxSpec

SKIPS = b"def mean(numbers):\n    import pytest\n    pytest.skip('later')\n"
FORGES = b"""
import _pytest.runner as runner
made = runner.CallInfo.from_call.__func__
def passed(cls, func, **more):
    return made(cls, lambda: None, **more)
runner.CallInfo.from_call = classmethod(passed)
"""


class Counted(Bubblewrap):
    """It counts its sandboxes."""

    made = 0

    async def create(self, spec: SandboxSpec | None = None) -> LiveSandbox:
        self.made += 1
        return await super().create(spec)


@pytest.fixture
def again() -> Grader:
    """Nothing is known of any tests yet."""
    return Grader(Counted(), bases=Bases())


async def test_every_grading_of_a_patch_has_the_same_result(again, instance, mended) -> None:
    """The first compiles the tests, the second has them compiled, the others use that."""
    right = (Change("sums/core.py", "file", mended.encode()),)
    grades = [await again.grade(instance, right) for _ in range(4)]
    assert all(grade.resolved for grade in grades)
    assert len({(grade.fail_to_pass, grade.pass_to_pass) for grade in grades}) == 1
    assert again.provider.made == 5, "one for each, and one to compile the tests"


async def test_a_cheat_is_found_with_tests_that_were_compiled_before(
    again, instance, mended, broken
) -> None:
    right = (Change("sums/core.py", "file", mended.encode()),)
    for _ in range(2):
        await again.grade(instance, right)
    forged = await again.grade(instance, [Change("sums/core.py", "file", broken.encode() + FORGES)])
    assert (forged.problem, forged.resolved) == ("tampered", False)
    wrong = await again.grade(instance, [Change("sums/core.py", "file", broken.encode() + b"\n#")])
    assert wrong.fail_to_pass.failed == instance.fail_to_pass


async def test_how_tests_go_without_the_patch_is_found_out_once(again, instance, broken) -> None:
    skips = (Change("sums/core.py", "file", broken.encode() + SKIPS),)
    grades = [await again.grade(instance, skips) for _ in range(3)]
    assert not any(grade.resolved or grade.fail_to_pass.passed for grade in grades)
    assert again.provider.made == 3 + 1 + 1, "the base alone once, and one to compile the tests"


class BusyOnce(Counted):
    """The third of its sandboxes, the base alone for the first time, finds the machine busy."""

    def __init__(self, folder: Path) -> None:
        folder.chmod(0o755)
        super().__init__(readable=[folder])
        self.flag = folder / "busy"

    async def create(self, spec: SandboxSpec | None = None) -> LiveSandbox:
        if self.made == 2:
            self.flag.touch()
        else:
            self.flag.unlink(missing_ok=True)
        return await super().create(spec)


@pytest.mark.slow
async def test_a_base_that_crashed_once_is_no_word_about_later_patches(
    instance, repository, mended
) -> None:
    """An honest patch whose test skips, as it does without it, was refused for ever after."""
    skips = "\ndef later():\n    import pytest\n    pytest.skip('later')\n"
    core, tests = repository / "sums" / "core.py", repository / "tests" / "test_core.py"
    core.write_text(core.read_text() + skips)
    with tempfile.TemporaryDirectory(dir="/var/tmp", prefix="rolecraft-test-") as place:
        provider = BusyOnce(Path(place))
        tests.write_text(
            f"import os\nif os.path.exists({str(provider.flag)!r}):\n    os.abort()\n"
            + tests.read_text()
            + "\n\ndef test_later():\n    __import__('sums.core').core.later()\n"
        )
        kept = (*instance.pass_to_pass, "tests/test_core.py::test_later")
        grader = Grader(provider, bases=Bases())
        right = (Change("sums/core.py", "file", (mended + skips).encode()),)
        grades = [
            await grader.grade(dataclasses.replace(instance, pass_to_pass=kept), right)
            for _ in range(3)
        ]
    assert [grade.resolved for grade in grades] == [False, True, True]
    assert provider.made == 3 + 1 + 2, "the base alone twice, and one to compile the tests"


@pytest.mark.slow
async def test_a_plug_in_that_goes_elsewhere_does_not_end_grading(
    again, instance, repository, mended
) -> None:
    """Paths of compiled tests are told from the work folder, wherever the runner is by then."""
    (repository / "elsewhere.py").write_text("import os\nos.chdir('/tmp')\n")
    settings = '[tool.pytest.ini_options]\naddopts = "-p elsewhere"\npythonpath = "."\n'
    (repository / "pyproject.toml").write_text(settings)
    right = (Change("sums/core.py", "file", mended.encode()),)
    grades = [await again.grade(instance, right) for _ in range(3)]
    assert len({(grade.problem, grade.why, grade.verdict) for grade in grades}) == 1


async def test_other_tests_under_the_same_name_are_other_tests(
    again, instance, repository, mended
) -> None:
    """The code of a test is known by what it says, not by its name."""
    right = (Change("sums/core.py", "file", mended.encode()),)
    for _ in range(3):
        assert (await again.grade(instance, right)).resolved
    tests = repository / "tests" / "test_core.py"
    tests.write_text(tests.read_text().replace("mean([7]) == 7", "mean([7]) == 8"))
    grade = await again.grade(dataclasses.replace(instance, id="sums-2"), right)
    assert grade.fail_to_pass.failed == ("tests/test_core.py::TestMean::test_of_one",)


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 6))), st.integers(1, 4))
def test_the_latest_are_kept_and_no_more(steps: list[tuple[bool, int]], most: int) -> None:
    latest, used = Latest[int](most), list[int]()
    for puts, key in steps:
        if puts:
            latest.put(key, -key)
        elif latest.get(key) is None:
            assert key not in used[-most:]
            continue
        used = [each for each in used if each != key] + [key]
    assert [latest.get(key) for key in used[-most:]] == [-key for key in used[-most:]]


def test_only_one_is_told_to_compile_and_at_the_second_time() -> None:
    known, keys = Known(), {"a.py": "a", "b.py": "b"}
    assert known.to_compile(keys) == []
    assert known.to_compile({**keys, "c.py": "c"}) == ["a.py", "b.py"]
    assert known.to_compile({**keys, "c.py": "c"}) == ["c.py"]
    assert known.ready(keys) == {}, "the one who was told is at it, or has failed"
    known.compiled.put("a", ("python", "code"))
    assert known.ready(keys) == {"a.py": ("python", "code")}
