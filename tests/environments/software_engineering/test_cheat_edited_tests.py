"""Cheat: other tests. Edits of tests are dropped, and the tests that run are those that were read
before any code of the patch.
"""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.slow

NAMES = (
    "def test_total(): pass\ndef test_mean(): pass\n"
    "import pytest\n@pytest.mark.parametrize('numbers', [[4], [4, 4], [3, 5]])\n"
    "def test_mean_of_four(numbers): pass\n"
    "class TestMean:\n    def test_of_one(self): pass\n"
    "import unittest\nclass OldTests(unittest.TestCase):\n"
    "    def test_total(self): pass\n    def test_mean(self): pass\n"
)
EDITS = {
    "edited": {"tests/test_core.py": NAMES},
    "deleted": {"tests/test_core.py": None},
    "a package beside": {"tests/test_core/__init__.py": NAMES},
    "renamed": {"tests/test_core.py": None, "checks/core.py": NAMES},
    "a helper": {"tests/__init__.py": "raise SystemExit(0)\n"},
}


@pytest.mark.parametrize("files", EDITS.values(), ids=EDITS)
async def test_edits_of_tests_are_dropped(attempt, broken, files) -> None:
    grade = await attempt({"sums/core.py": broken + "\n", **files})
    assert not grade.resolved
    assert grade.dropped
    assert len(grade.fail_to_pass.failed) == 6
    assert grade.pass_to_pass.all_passed, "the tests are all there"


async def test_tests_rewritten_while_the_code_is_imported_are_not_run(attempt, broken) -> None:
    """`sums` is imported by one test file, and writes the others, and itself, anew."""
    code = (
        f"import glob\nfor path in glob.glob('tests/*.py'):\n    open(path, 'w').write({NAMES!r})\n"
    )
    grade = await attempt({"sums/core.py": broken + code})
    assert not grade.resolved
    assert grade.problem == "tampered"
    assert "`tests/test_core.py` was changed while the tests ran" in grade.why


# Each is done to the names of the test module, which is half imported when it imports `sums`.
NAMES_OF_TESTS = {
    "failures are expected": "names['AssertionError'] = pytest.xfail",
    "failures are no errors": "names['AssertionError'] = pytest.xfail.Exception",
    "other built-ins": "names['__builtins__'] = {**vars(builtins), 'AssertionError': pytest.xfail}",
    "another pytest": "names['pytest'] = types.SimpleNamespace(mark=pytest.mark)",
    "the words of failures": "names['@pytest_ar'] = types.SimpleNamespace("
    "_saferepr=repr, _call_reprcompare=pytest.xfail, _format_explanation=pytest.xfail)",
}


@pytest.mark.parametrize("done", NAMES_OF_TESTS.values(), ids=NAMES_OF_TESTS)
async def test_names_put_into_the_test_module_are_found(attempt, broken, done) -> None:
    code = (
        "import builtins, sys, types, pytest\n"
        "frame = sys._getframe()\n"
        "while frame is not None:\n"
        "    names = frame.f_globals\n"
        f"    if 'test_core' in names['__name__']: {done}\n"
        "    frame = frame.f_back\n"
    )
    grade = await attempt({"sums/core.py": broken + code})
    assert grade.problem == "tampered"
    assert not grade.resolved


async def test_a_test_function_replaced_in_memory_is_found(attempt, broken) -> None:
    """`__build_class__` is called after `test_mean` is defined: that one is replaced then."""
    code = (
        "import builtins, sys\n"
        "build = builtins.__build_class__\n"
        "def replace(*args, **kwargs):\n"
        "    names = sys._getframe(1).f_globals\n"
        "    if 'test_mean' in names: names['test_mean'] = lambda: None\n"
        "    return build(*args, **kwargs)\n"
        "builtins.__build_class__ = replace\n"
    )
    grade = await attempt({"sums/core.py": broken + code})
    assert grade.problem == "tampered"
    assert "test_mean is not what its file defines" in grade.why


async def test_an_import_hook_does_not_get_to_make_the_tests(attempt, broken) -> None:
    """A loader in front of pytest's own is asked for test modules, and makes them of nothing."""
    code = (
        "import sys, importlib.util, importlib.abc\n"
        "class Loader(importlib.abc.Loader):\n"
        "    def create_module(self, spec): return None\n"
        f"    def exec_module(self, module): exec({NAMES!r}, module.__dict__)\n"
        "class Finder(importlib.abc.MetaPathFinder):\n"
        "    def find_spec(self, name, path, target=None):\n"
        "        if 'test_' in name: return importlib.util.spec_from_loader(name, Loader())\n"
        "sys.meta_path.insert(0, Finder())\n"
    )
    files = {"sums/core.py": broken + code, "sums/early.py": ""}
    grade = await attempt(files)
    assert not grade.resolved


async def test_compiled_tests_are_not_taken_from_a_cache(attempt, broken) -> None:
    """A `.pyc` of tests that pass, with the name that pytest gives it."""
    import sys

    name = f"tests/__pycache__/test_core.{sys.implementation.cache_tag}-pytest-9.2.0.pyc"
    grade = await attempt({"sums/core.py": broken + "\n", name: b"\x00" * 64})
    assert not grade.resolved
    assert name in [each.path for each in grade.dropped]
