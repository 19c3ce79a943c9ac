"""Whatever a change does to the tests is a status of its verdict, and never an error of ours."""

from __future__ import annotations

from typing import Any

import pytest

from rolecraft.errors import UsageError

RESULT = "result = number * 2"


async def test_a_bug_that_some_tests_notice_is_valid(judged: Any, small: Any) -> None:
    verdict = await judged("number * 2", "number * 3")
    assert verdict.status == "valid", verdict
    assert verdict.fail_to_pass == tuple(small.tests[:4])
    assert verdict.lost == ()
    assert set(verdict.messages) == set(small.tests[:4])
    assert "assert 9 == (2 * 3)" in verdict.messages[small.tests[2]]
    assert len(verdict.pass_to_pass(small.tests)) == len(small.tests) - 4


async def test_messages_have_both_values_whole(judged: Any, small: Any) -> None:
    """pytest would show 30 characters of each, and an issue tells of what it was shown."""
    wanted = [*range(10, 30)]
    small.write(
        {
            "tests/test_more.py": "from numbers_of_ours import double\n"
            f"def test_it(): assert [double(n) // 2 for n in range(10, 30)] == {wanted}\n"
        }
    )
    small.tests = (*small.tests, "tests/test_more.py::test_it")
    verdict = await judged("number * 2", "number * 4")
    come = [2 * number for number in wanted]
    assert f"assert {come} == {wanted}" in verdict.messages["tests/test_more.py::test_it"]


async def test_what_no_test_notices_is_none(judged: Any) -> None:
    assert (await judged("number * 2", "2 * number")).status == "no_test_fails"


async def test_more_than_the_cap_is_too_many(judged: Any) -> None:
    """Four of 17 fail, and three may."""
    verdict = await judged("number * 2", "number * 3", cap=0.2)
    assert verdict.status == "too_many_fail"


async def test_an_error_in_set_up_counts_as_failing(judged: Any, small: Any) -> None:
    verdict = await judged(RESULT, "if number == 2: raise KeyError(number)\n    " + RESULT)
    assert verdict.status == "valid"
    assert verdict.fail_to_pass == (small.tests[1], small.tests[3])


async def test_what_is_skipped_with_a_bug_is_lost(judged: Any, small: Any) -> None:
    verdict = await judged(RESULT, "if number < 3: import pytest; pytest.skip()\n    return 0")
    assert verdict.status == "valid"
    assert verdict.fail_to_pass == (small.tests[2],)
    assert verdict.lost == (small.tests[0], small.tests[1], small.tests[3])
    assert not set(verdict.lost) & set(verdict.pass_to_pass(small.tests))


async def test_parameters_whose_ids_change_are_lost(judged: Any, small: Any) -> None:
    small.write(
        {
            "tests/test_more.py": "import pytest\nfrom numbers_of_ours import LIMIT, limited\n"
            "@pytest.mark.parametrize('n', [LIMIT])\ndef test_it(n): assert n\n"
        }
    )
    small.tests = (*small.tests, "tests/test_more.py::test_it[10]")
    verdict = await judged("LIMIT = 10", "LIMIT = 9")
    assert verdict.fail_to_pass == ("tests/test_numbers.py::test_limited",)
    assert verdict.lost == ("tests/test_more.py::test_it[10]",)


async def test_of_subtests_with_one_id_the_worse_outcome_holds(judged: Any, small: Any) -> None:
    """pytest reports each subtest under the id of its test, and the test as passed at the end."""
    small.write(
        {
            "tests/test_more.py": "import unittest\nfrom numbers_of_ours import half\n"
            "class Tests(unittest.TestCase):\n"
            "    def test_halves(self):\n"
            "        for number in (7, 8, 9):\n"
            "            with self.subTest(number=number):\n"
            "                self.assertEqual(half(number), int(number / 2))\n"
        }
    )
    name = "tests/test_more.py::Tests::test_halves"
    small.tests = (*small.tests, name)
    verdict = await judged("number // 2", "number // 2 + (number == 8)")
    assert verdict.fail_to_pass == (name,)


ENDS = {
    "a test that never ends": ("while number > 2: pass", "timeout"),
    "wants all memory": ("bytearray(10**13)", "memory"),
    "leaves with success": ("import os; os._exit(0)", "crashed"),
    "leaves with failure": ("import os; os._exit(1)", "crashed"),
    "kills itself": ("import os; os.kill(os.getpid(), 9)", "crashed"),
    "a fault of memory": ("import ctypes; ctypes.string_at(0)", "crashed"),
    "leaves a process behind": (
        "import os; os.fork() or os.setsid() or time.sleep(99)",
        "no_test_fails",
    ),
    "closes what it was given": ("import os; os.closerange(0, 99)", "crashed"),
    "kills the fork server": ("import os; os.kill(os.getppid(), 9)", "crashed"),
    "kills all": ("import os; os.kill(-1, 9)", "crashed"),
    "stops the runner": ("raise KeyboardInterrupt", "crashed"),
    "is no function any more": ("return 0\n\ndef half(number):", "valid"),
    "an error": ("raise SystemExit", "valid"),
}


async def test_however_the_tests_end_it_is_a_status(small: Any) -> None:
    """One worker goes on after each of them, and after all of them a bug is still a bug."""
    small.write({small.code: "import time\n" + (small.folder.source / small.code).read_text()})
    found = await small.verdicts(
        *(small.candidate(RESULT, f"{line}\n    {RESULT}") for line, _ in ENDS.values()),
        small.candidate("number * 2", "number * 3"),
    )
    assert [verdict.status for verdict in found[:-1]] == [status for _, status in ENDS.values()]
    assert found[-1].fail_to_pass == tuple(small.tests[:4])


@pytest.mark.slow
async def test_imports_and_tests_that_wait_end_by_the_clock(small: Any) -> None:
    """They take no processor time."""
    found = await small.verdicts(
        small.candidate(RESULT, "import time; time.sleep(9999)\n    return 0"),
        small.candidate("LIMIT = 10", "import time; time.sleep(9999)"),
        small.candidate("LIMIT = 10", "while True: pass"),
        time_limit=1.0,
    )
    assert [verdict.status for verdict in found] == ["timeout"] * 3


async def test_tests_that_cannot_be_collected_do_not_load(judged: Any) -> None:
    verdict = await judged("LIMIT = 10", "LIMIT = TEN")
    assert verdict.status == "does_not_load"
    assert "tests/test_numbers.py" in verdict.why


async def test_nor_does_what_breaks_a_conftest_file(judged: Any, small: Any) -> None:
    small.write({"tests/conftest.py": "from numbers_of_ours import half\n"})
    verdict = await judged("def half", "def third")
    assert verdict.status == "does_not_load"


async def test_a_change_that_does_not_fit_does_not_apply(small: Any) -> None:
    beyond = small.candidate("return result", "return 0")
    small.write({small.code: "LIMIT = 10\n"})
    small.write({"tests/test_numbers.py": "def test_one(): pass\n"})
    small.tests = ("tests/test_numbers.py::test_one",)
    (verdict,) = await small.verdicts(beyond)
    assert verdict.status == "does_not_apply"


async def test_a_bug_that_depends_on_the_order_of_a_set_is_flaky(judged: Any, small: Any) -> None:
    """The second run has another seed for hashes."""
    small.write(
        {
            "tests/test_more.py": "import pytest\nfrom numbers_of_ours import half\n"
            "@pytest.mark.parametrize('n', range(40))\ndef test_it(n): assert half(2 * n) == n\n"
        }
    )
    small.tests = (*small.tests, *(f"tests/test_more.py::test_it[{n}]" for n in range(40)))
    verdict = await judged("number // 2", "number // 2 + hash(str(number)) % 2", cap=1.0)
    assert verdict.status == "flaky"


async def test_a_bug_that_fails_all_leaves_no_test(judged: Any, small: Any) -> None:
    small.tests = small.tests[:3]
    small.suite = {"set_aside": dict.fromkeys(small.plan().suite.passing[3:], "a choice")}
    verdict = await judged("number * 2", "number * 3", cap=1.0)
    assert verdict.status == "no_test_passes"


async def test_code_that_no_test_runs_is_not_tried(small: Any) -> None:
    small.suite = {"seen_by": {small.code: {7: small.tests[:4]}}}
    (verdict,) = await small.verdicts(small.candidate("number // 2", "number // 3"))
    assert verdict.status == "no_test_fails"
    assert verdict.why == "no test runs the changed lines"


async def test_what_only_the_whole_suite_sees_failing_is_run_again(small: Any) -> None:
    """By the plan only `test_half` sees the line; the others are found by the second run."""
    small.suite = {"seen_by": {small.code: {7: (small.tests[3],)}}}
    (verdict,) = await small.verdicts(small.candidate("number * 2", "number * 3"))
    assert verdict.status == "valid"
    assert verdict.fail_to_pass == tuple(small.tests[:4])


async def test_tests_in_a_file_of_code_do_not_count(judged: Any, small: Any) -> None:
    """Whoever mends the code could change them."""
    small.project["test_command"] = ("--doctest-modules",)
    small.write(
        {small.code: '"""\n>>> half(9)\n4\n"""\n' + (small.folder.source / small.code).read_text()}
    )
    small.tests = ("numbers_of_ours.py::numbers_of_ours", *small.tests)
    assert (await judged("number // 2", "number - 2")).status == "no_test_fails"


async def test_a_clean_suite_that_is_not_what_the_plan_says_is_refused(small: Any) -> None:
    small.tests = (*small.tests, "tests/test_numbers.py::test_of_yesterday")
    with pytest.raises(UsageError, match=r"test_of_yesterday.*rolecraft synth plan"):
        await small.verdicts(small.candidate("number // 2", "number // 3"))
