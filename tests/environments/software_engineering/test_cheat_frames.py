"""Cheat: walk up the stack, or through memory, to the runner's own objects.

Code under test shares the runner's process, so not all of it can be stopped (see the docs). What
is known is: marks and stashes of a test, its methods, its code, functions of hooks.
"""

from __future__ import annotations

import dataclasses

import pytest

from rolecraft.environments.software_engineering.patches import Change

pytestmark = pytest.mark.slow

WALK = """import sys
def found(name):
    frame = sys._getframe(1)
    while frame is not None:
        if frame.f_locals.get(name) is not None:
            return frame.f_locals[name]
        frame = frame.f_back
"""
EXPECTING = {
    "with its mark": (
        "import pytest\n"
        "def mean(numbers):\n"
        "    found('item').add_marker(pytest.mark.xfail)\n"
        "    return 0\n"
    ),
    "with its stash": (
        "from _pytest.skipping import xfailed_key, Xfail\n"
        "def mean(numbers):\n"
        "    expected = Xfail(reason='x', run=True, strict=False, raises=None)\n"
        "    found('item').stash[xfailed_key] = expected\n"
        "    return 0\n"
    ),
    "from a frame of another module": (
        "import contextlib, pytest\n"
        "def mean(numbers):\n"
        "    stack = contextlib.ExitStack()\n"
        "    stack.callback(pytest.xfail, 'x')\n"
        "    stack.close()\n"
    ),
    "from a file with a false name": (
        "exec(compile('import pytest\\ndef mean(n): pytest.xfail(\"x\")',"
        " '/usr/lib/python3/x.py', 'exec'))\n"
    ),
}


@pytest.mark.parametrize("code", EXPECTING.values(), ids=EXPECTING)
async def test_an_expected_failure_counts_only_if_it_was_one_before(attempt, broken, code) -> None:
    grade = await attempt({"sums/core.py": broken + WALK + code})
    assert not grade.resolved
    assert not grade.fail_to_pass.passed


REPLACED = {
    "the code of later tests": (
        "def nothing(*args, **named): pass\n"
        "total_ = total\n"
        "def total(numbers):\n"
        "    space = sys._getframe(1).f_globals\n"
        "    for value in list(space.values()):\n"
        "        for each in vars(value).values() if isinstance(value, type) else [value]:\n"
        "            if getattr(each, '__name__', '') in\\\n"
        "                ('test_mean', 'test_mean_of_four', 'test_of_one'):\n"
        "                each.__code__ = nothing.__code__\n"
        "    return total_(numbers)\n"
    ),
    "the methods of later tests": (
        "total_ = total\n"
        "def total(numbers):\n"
        "    session = found('session')\n"
        "    for each in session.items if session else ():\n"
        "        if each.obj.__name__ == each.name.split('[')[0]:\n"
        "            each.runtest = lambda: None\n"
        "    return total_(numbers)\n"
    ),
    "the function of a hook": (
        "import gc, pluggy\n"
        "flag = []\n"
        "for each in gc.get_objects():\n"
        "    if isinstance(each, pluggy.HookImpl) and each.plugin_name == 'runner':\n"
        "        if each.function.__name__ == 'pytest_runtest_makereport':\n"
        "            def quiet(item, call, old=each.function):\n"
        "                if flag and call.when == 'call':\n"
        "                    call.excinfo = None\n"
        "                    flag.clear()\n"
        "                return old(item, call)\n"
        "            each.function = quiet\n"
        "def mean(numbers):\n"
        "    flag.append(1)\n"
        "    return 0\n"
    ),
    "what calls the hooks": (
        "import gc, pluggy\n"
        "flag = []\n"
        "for each in gc.get_objects():\n"
        "    if isinstance(each, pluggy.PluginManager):\n"
        "        def quiet(name, impls, given, first, old=each._inner_hookexec):\n"
        "            if name == 'pytest_runtest_makereport' and flag:\n"
        "                if given['call'].when == 'call':\n"
        "                    given['call'].excinfo = None\n"
        "                    flag.clear()\n"
        "            return old(name, impls, given, first)\n"
        "        each._inner_hookexec = quiet\n"
        "def mean(numbers):\n"
        "    flag.append(1)\n"
        "    return 0\n"
    ),
}


@pytest.mark.parametrize("code", REPLACED.values(), ids=REPLACED)
async def test_what_is_replaced_on_objects_of_the_runner_is_seen(attempt, broken, code) -> None:
    grade = await attempt({"sums/core.py": broken + WALK + code})
    assert grade.problem == "tampered"
    assert not grade.resolved


@pytest.mark.parametrize("autouse", [False, True])
async def test_a_skipped_test_whose_report_says_passed_is_seen(
    grader, instance, repository, broken, autouse
) -> None:
    """The hook is there from a fixture's skip to the report of it, and no longer."""
    tests = f"""
class TestLate:
    @pytest.fixture(autouse={autouse})
    def value(self):
        return mean([8])

    def test_late(self, value):
        assert value == 8
"""
    path = repository / "tests/test_core.py"
    path.write_text(path.read_text() + tests)
    late = "tests/test_core.py::TestLate::test_late"
    named = dataclasses.replace(instance, fail_to_pass=(late,), pass_to_pass=())
    code = """
import pytest
lied = []
class Liar:
    def pytest_runtest_logreport(self, report):
        if report.outcome == "skipped":
            report.outcome, report.when = "passed", "call"
class Honest:
    def __init__(self, manager, liar):
        self.manager, self.liar = manager, liar
    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logreport(self, report):
        report.outcome, report.when = "skipped", "setup"
        self.manager.unregister(self.liar)
        self.manager.unregister(self)
def mean(numbers):
    item = found("item") if numbers == [8] else None
    if item is not None:
        if not lied:
            manager = item.config.pluginmanager
            lied.append(Liar())
            manager.register(lied[0])
            manager.register(Honest(manager, lied[0]))
        pytest.skip()
    return 0
"""
    change = Change("sums/core.py", "file", (broken + WALK + code).encode())
    grade = await grader.grade(named, [change])
    assert grade.report.outcomes[late] == "passed", "else this is no cheat"
    assert grade.problem == "tampered"
    assert not grade.resolved


async def test_an_importer_of_the_package_may_not_read_the_tests(
    attempt, repository, broken
) -> None:
    """The base's conftest file imports the package, so its importer is there before the tests."""
    (repository / "tests/conftest.py").write_text("import sums\n")
    code = """
import importlib.util, importlib.machinery, os, re, sys
class Loader(importlib.machinery.SourceFileLoader):
    def source_to_code(self, data, path, *, _optimization=-1):
        text = re.sub(r'assert (mean)', r'0 and \\1', data.decode())
        text = text.replace('self.assertEqual(mean([1, 3]), 2)', 'pass')
        return compile(text, path, 'exec', dont_inherit=True)
class Finder:
    def find_spec(self, name, path=None, target=None):
        if name.endswith('test_core'):
            path = os.path.abspath('tests/test_core.py')
            return importlib.util.spec_from_file_location(name, path, loader=Loader(name, path))
sys.meta_path.insert(0, Finder())
"""
    grade = await attempt({"sums/core.py": broken + code})
    assert grade.problem == "tampered"


async def test_no_frame_of_the_runner_has_the_token(attempt, broken) -> None:
    """Whoever walks up the stack does not come upon it; see the docs on who searches memory."""
    code = (
        "import sys\n"
        "frame, names = sys._getframe(), []\n"
        "while frame is not None:\n"
        "    names += [n for n in frame.f_locals if n in ('token', 'out', 'settings')]\n"
        "    names += [n for n, v in frame.f_locals.items() if n == 'write' and callable(v)]\n"
        "    frame = frame.f_back\n"
        "if names: raise SystemExit(repr(names))\n"
    )
    grade = await attempt({"sums/core.py": broken + code})
    assert grade.problem is None
    assert len(grade.pass_to_pass.passed) == 2
