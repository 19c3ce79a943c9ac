"""Verdicts come in the order of the candidates, once each, whatever was killed in between."""

from __future__ import annotations

import asyncio
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import Any

import pytest

from rolecraft.errors import JournalError, SandboxError, UsageError
from rolecraft.sandboxes import Bubblewrap, Remote
from rolecraft.sandboxes.server import MOST, SandboxServer, ServerSettings
from rolecraft.synthesis.candidates import Candidate
from rolecraft.synthesis.folder import SynthesisFolder
from rolecraft.synthesis.ledger import Ledger, read_ledger
from rolecraft.synthesis.plan import Plan
from rolecraft.synthesis.validation import (
    Settings,
    Tally,
    candidates_of,
    validate_folder,
    validating,
)
from rolecraft.synthesis.validation.places import Place
from rolecraft.synthesis.validation.settings import UNSTEADY
from rolecraft.synthesis.validation.validating import set_aside
from rolecraft.synthesis.validation.warm import FOREVER, WarmPytest, _Server
from rolecraft.synthesis.verdicts import Verdict

RESULT = "result = number * 2"
FACTORS = range(3, 7)
NOTHING, SLOW, CRASH = (
    "2 * number",
    "number * (2 + sum(range(10**6)) * 0)",
    "__import__('os')._exit(3)",
)


def several(small: Any) -> list[Candidate]:
    """Some valid, some not, some slow, each of another kind than the one before."""
    factors = [f"number * {factor}" for factor in FACTORS]
    changes = [
        each
        for factor in factors
        for each in (factor, f"{factor} * 1", NOTHING + f"+ {factor} * 0")
    ]
    return [small.candidate("number * 2", each) for each in (SLOW, CRASH, *changes)]


def planted(small: Any) -> None:
    small.plan()
    small.folder.candidates.unlink(missing_ok=True)
    with Ledger(small.folder.candidates, Candidate, key=lambda each: each.id) as ledger:
        for each in several(small):
            ledger.append(each)


def written(folder: SynthesisFolder) -> list[Verdict]:
    """Without what depends on time."""
    found = read_ledger(folder.verdicts, Verdict, key=lambda each: each.candidate)
    return [replace(each, seconds=0.0, processor_seconds=0.0, messages={}) for each in found]


async def run(small: Any, **options: Any) -> list[Verdict]:
    settings = options.pop("settings", Settings(cap=0.5))
    running = validate_folder(small.folder, settings=settings, **options)
    async with aclosing(running) as found:
        return [each async for each in found]


async def test_two_workers_write_what_one_does(small: Any) -> None:
    planted(small)
    await run(small, workers=1)
    alone = written(small.folder)
    await run(small, workers=3, new=True)
    assert written(small.folder) == alone
    assert [each.candidate for each in alone] == [each.id for each in several(small)]
    assert {each.status for each in alone} == {"valid", "no_test_fails", "crashed"}


async def test_where_one_worker_cannot_be_closed_the_others_are(
    small: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    planted(small)
    close, closed = WarmPytest.close, list[WarmPytest]()

    async def fails_once(worker: WarmPytest) -> None:
        closed.append(worker)
        await close(worker)
        if len(closed) == 1:
            raise SandboxError("it is gone")

    monkeypatch.setattr(WarmPytest, "close", fails_once)
    with pytest.raises(SandboxError, match="it is gone"):
        await run(small, workers=2, stop_after=1)
    assert len(closed) == 2


async def test_it_ends_when_enough_are_valid_and_goes_on_behind_them(small: Any) -> None:
    planted(small)
    first = await run(small, workers=2, stop_after=3)
    assert [each.is_valid for each in first].count(True) == 3
    assert first[-1].is_valid
    assert await run(small, workers=2, stop_after=3) == []
    rest = await run(small, workers=2)
    assert [each.candidate for each in (*first, *rest)] == [each.id for each in several(small)]


async def test_verdicts_of_other_settings_are_not_mixed(small: Any) -> None:
    planted(small)
    await run(small, workers=2, stop_after=1)
    with pytest.raises(UsageError, match=r"validated with cap 0\.5.*--new"):
        await run(small, settings=Settings(cap=0.3))
    found = await run(small, settings=Settings(cap=0.2), workers=2, new=True)
    assert {each.status for each in found} == {"too_many_fail", "no_test_fails", "crashed"}


async def test_without_candidates_it_says_what_makes_them(small: Any) -> None:
    small.plan()
    with pytest.raises(UsageError, match="rolecraft synth plant"):
        await run(small)


async def test_a_full_disk_is_one_error_and_what_was_written_stays(
    small: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    planted(small)
    await run(small, workers=2, stop_after=1)
    before = written(small.folder)
    import resource

    size = small.folder.verdicts.stat().st_size
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    sandboxes = Bubblewrap()  # begun without the limit
    async with await sandboxes.create() as sandbox:
        await sandbox.run(["true"])
        ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size + 50, hard))
        try:
            with pytest.raises(JournalError, match=r"verdicts\.jsonl"):
                await run(small, workers=1, provider=sandboxes)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
            signal.signal(signal.SIGXFSZ, ignored)
    assert written(small.folder) == before
    await run(small, workers=2)
    assert len(written(small.folder)) == len(several(small))


async def test_a_tree_that_tests_write_into_is_as_it_was_for_the_next_one(small: Any) -> None:
    """New ones go, what was changed, deleted or locked comes back: `test_clean` looks."""
    small.write(
        {
            "data/one.txt": "1",
            "data/two.txt": "2",
            "tests/test_more.py": "import os, pathlib, shutil\n"
            "from numbers_of_ours import double\n"
            "here = pathlib.Path('data')\n"
            "def test_clean():\n"
            "    assert sorted(p.name for p in here.iterdir()) == ['one.txt', 'two.txt']\n"
            "    assert (here / 'one.txt').read_text() == '1'\n"
            "    assert not list(pathlib.Path('.').glob('*.out'))\n"
            "    assert not pathlib.Path('/tmp/left').exists()\n"
            "def test_writes():\n"
            "    (here / 'one.txt').write_text('other')\n"
            "    (here / 'two.txt').unlink()\n"
            "    (here / 'new').mkdir()\n"
            "    (here / 'new' / 'three.txt').write_text('3')\n"
            "    pathlib.Path('a.out').write_text('a')\n"
            "    pathlib.Path('/tmp/left').write_text('a')\n"
            "    os.chmod('data', 0o500)\n"
            "    assert double(1) == 2\n",
        }
    )
    more = ("tests/test_more.py::test_clean", "tests/test_more.py::test_writes")
    small.tests = (*small.tests, *more)
    factors = [small.candidate("number * 2", f"number * {factor}") for factor in (3, 4, 5)]
    found = await small.verdicts(*factors)
    assert [each.fail_to_pass for each in found] == [(*small.tests[:4], more[1])] * 3


async def test_a_new_file_is_there_and_gone_again(small: Any) -> None:
    """A change may bring a module; and one of a single length and second is no old bytecode."""
    bug = small.candidate("", "import numbers_of_ours as n\n", path="helping/new.py")
    two = small.candidate("number * 2", "number * 7")
    three = small.candidate("number * 2", "number * 8")
    found = await small.verdicts(bug, two, three, bug_again(small))
    assert [each.status for each in found] == ["no_test_fails", "valid", "valid", "no_test_fails"]
    assert "assert 7 ==" in "".join(found[1].messages.values())
    assert "assert 8 ==" in "".join(found[2].messages.values())


def bug_again(small: Any) -> Candidate:
    code = "try:\n    import helping.new\nexcept ImportError:\n    pass\nelse:\n    LIMIT = 0\n"
    return small.candidate("LIMIT = 10\n", f"LIMIT = 10\n{code}")  # type: ignore[no-any-return]


async def test_tests_that_were_set_aside_are_not_run(small: Any) -> None:
    """One never ends and a file of them cannot be collected: the plan says so."""
    small.write(
        {
            "tests/test_more.py": "def test_hangs():\n    while True: pass\n",
            "tests/test_odd.py": "raise ValueError\n",
        }
    )
    small.suite = {
        "set_aside": {"tests/test_more.py::test_hangs": "never ends", "tests/test_odd.py": "fails"}
    }
    (verdict,) = await small.verdicts(small.candidate("number * 2", "number * 3"))
    assert verdict.status == "valid"


async def test_tests_in_a_file_that_pytest_does_not_find_by_its_name_are_run(small: Any) -> None:
    """As of titlecase 2.4, whose tests are `titlecase/tests.py`: the plan names the file."""
    tests = "from numbers_of_ours import double\n\n\n"
    tests += "".join(f"def test_{n}():\n    assert double({n}) == {2 * n}\n\n\n" for n in range(4))
    (small.folder.source / "tests/test_numbers.py").unlink()
    small.write({"numbers/tests.py": tests})
    small.project["tests"] = ("numbers/tests.py",)
    small.tests = [f"numbers/tests.py::test_{number}" for number in range(4)]
    (verdict,) = await small.verdicts(small.candidate("number * 2", "number * 2 or 1"))
    assert (verdict.status, verdict.fail_to_pass) == ("valid", (small.tests[0],))


async def test_without_a_sandbox_it_says_so(small: Any) -> None:
    class Refuses(Bubblewrap):
        async def create(self, spec: Any = None) -> Any:
            raise SandboxError("There is none.")

    with pytest.raises(SandboxError, match="There is none"):
        await small.verdicts(small.candidate("number * 2", "number * 3"), provider=Refuses())


async def test_an_answer_that_comes_in_another_thread_wakes_who_waits_for_it(small: Any) -> None:
    """`listening` may be called in any: what came so once was seen when something else happened."""
    place = await Place.of(small.plan())
    server = _Server(None, small.plan(), Settings(), place.runtime, "1")  # type: ignore[arg-type]
    began = time.monotonic()
    waiting = asyncio.ensure_future(server._ready(90))
    await asyncio.sleep(0)
    timer = threading.Timer(0.2, server._hear, [b"\n"])  # when the loop sleeps
    timer.start()
    await waiting
    assert time.monotonic() - began < 60, "and not when its time was over"
    timer.join()


async def test_a_report_is_heard_whole_in_a_sandbox_elsewhere(small: Any) -> None:
    """Of what is printed there 64 KiB are told: a suite of a thousand tests came to no end."""
    many = [f"{'long' * 20}{number}" for number in range(800)]
    small.write(
        {
            "tests/test_more.py": "import pytest\n"
            f"@pytest.mark.parametrize('of_many', {many})\n"
            "def test_more(of_many): assert of_many\n"
        }
    )
    more = [f"tests/test_more.py::test_more[{each}]" for each in many]
    assert sum(map(len, more)) > 2**16
    small.tests = (*small.tests, *more)
    settings = ServerSettings(
        no_token=True,
        readable=(small.project["environment"],),
        most=replace(MOST, seconds=FOREVER, cpu_seconds=FOREVER),
    )
    server = SandboxServer(Bubblewrap(), settings, port=0)
    serving = asyncio.create_task(server.serve())
    try:
        async with Remote(server.url) as remote:
            bugs = [small.candidate("number * 2", f"number * {factor}") for factor in (3, 4)]
            found = await small.verdicts(*bugs, provider=remote)
    finally:
        server.stop()
        await serving
    assert [each.status for each in found] == ["valid", "valid"]
    assert len(found[0].pass_to_pass(small.tests)) == len(small.tests) - 4


async def test_figures_of_a_folder(small: Any) -> None:
    planted(small)
    await run(small, workers=2)
    tally = Tally.of(small.folder)
    assert tally.statuses == {"valid": 8, "no_test_fails": 5, "crashed": 1}
    assert (tally.at(0.5), tally.at(0.9), tally.within(0.3), tally.within(0.2)) == (4, 4, 1.0, 0.0)


VALIDATES = """
import asyncio, sys
from contextlib import aclosing
from pathlib import Path
from rolecraft.synthesis.folder import SynthesisFolder
from rolecraft.synthesis.validation import Settings, validate_folder

async def main():
    folder = SynthesisFolder(Path(sys.argv[1]))
    running = validate_folder(folder, settings=Settings(cap=0.5), workers=2)
    async with aclosing(running) as found:
        async for verdict in found:
            print(verdict.candidate, flush=True)

asyncio.run(main())
"""


def killed(folder: SynthesisFolder, after: Sequence[float | int]) -> None:
    """Validate, killed after so many verdicts (a whole number) or seconds, and then to the end."""
    for when in (*after, None):
        process = subprocess.Popen(
            [sys.executable, "-c", VALIDATES, str(folder.path)], stdout=subprocess.PIPE, text=True
        )
        assert process.stdout is not None
        if isinstance(when, int):
            for _ in range(when):
                process.stdout.readline()
        elif when is not None:
            time.sleep(when)
        if when is not None:
            process.kill()
        process.stdout.read()
        assert process.wait(120) == (0 if when is None else -signal.SIGKILL) or when is not None
        process.stdout.close()


async def test_after_kill_9_the_verdicts_are_those_of_one_call(small: Any) -> None:
    planted(small)
    await run(small, workers=2)
    whole = written(small.folder)
    small.folder.verdicts.unlink()
    await asyncio.to_thread(killed, small.folder, [1, 6])
    assert written(small.folder) == whole


@pytest.mark.slow
async def test_after_ten_kills_at_random_times_too(small: Any) -> None:
    planted(small)
    await run(small, workers=2)
    whole = written(small.folder)
    small.folder.verdicts.unlink()
    times = random.Random(10)
    at = [times.choice([times.randrange(1, 5), times.uniform(0.3, 4.0)]) for _ in range(10)]
    await asyncio.to_thread(killed, small.folder, at)
    assert written(small.folder) == whole
    assert len(list(candidates_of(small.folder))) == len(whole)


TIMED = """import pytest

from numbers_of_ours import double


@pytest.mark.parametrize("number", range({many}))
def test_steady(number):
    assert number >= 0


def test_that_is_quick_enough():
    assert double(1) == 3, "it took too long"
"""
DOUBLE = "tests/test_numbers.py::test_double[1]"
QUICK = "tests/test_quick.py::test_that_is_quick_enough"


def unsteady(small: Any, *, many: int) -> None:
    """By the plan a test passes, and now it does not: that measures time, on a busier machine."""
    small.write({"tests/test_quick.py": TIMED.format(many=many)})
    steady = [f"tests/test_quick.py::test_steady[{number}]" for number in range(many)]
    small.tests = (*small.tests, *steady, QUICK)
    small.project["tests"] = ("tests/test_numbers.py", "tests/test_quick.py")
    planted(small)


@pytest.mark.parametrize("rounds", [1, 4])
async def test_a_few_tests_that_fail_without_a_bug_are_set_aside_and_the_rest_goes_on(
    small: Any, monkeypatch: pytest.MonkeyPatch, rounds: int
) -> None:
    monkeypatch.setattr(validating, "ROUNDS", rounds)
    unsteady(small, many=10)
    told: list[Any] = []
    why = f"{UNSTEADY}, then failed"
    await run(small, workers=2, on_unsteady=told.append, stop_after=1)
    await run(small, workers=2, on_unsteady=told.append)
    assert told == [{QUICK: "flaky: passed when planned, then failed"}], (
        "once, for the plan has it then"
    )
    assert {each.status for each in written(small.folder)} == {
        "valid",
        "no_test_fails",
        "crashed",
    }
    assert not any(QUICK in each.fail_to_pass for each in written(small.folder))
    plan = Plan.load(small.folder)
    assert plan.suite.set_aside == {QUICK: why}
    assert QUICK not in plan.suite.outcomes


async def test_a_test_that_is_set_aside_later_is_taken_out_of_the_verdicts_before(
    small: Any,
) -> None:
    unsteady(small, many=20)
    first, second, *_ = several(small)
    failing = {"fail_to_pass": (QUICK, DOUBLE), "messages": {QUICK: "slow", DOUBLE: "4"}}
    alone = {"fail_to_pass": (QUICK,), "messages": {QUICK: "slow"}}
    with Ledger(small.folder.verdicts, Verdict, key=lambda each: each.candidate) as ledger:
        ledger.append(Verdict(candidate=first.id, status="valid", **failing))
        ledger.append(Verdict(candidate=second.id, status="valid", **alone))
    await run(small, workers=1, stop_after=3)
    now = read_ledger(small.folder.verdicts, Verdict, key=lambda each: each.candidate)
    found = {each.candidate: each for each in now}
    assert found[first.id].fail_to_pass == (DOUBLE,)
    assert [*found[first.id].messages] == [DOUBLE]
    assert (found[second.id].status, found[second.id].fail_to_pass) == ("flaky", ())
    assert sum(each.is_valid for each in found.values()) == 3, "two more were looked for"


async def test_tests_set_aside_in_several_calls_are_a_few_in_all(small: Any) -> None:
    unsteady(small, many=20)
    plan = small.plan()
    steady = [test for test in plan.suite.outcomes if "steady" in test]
    with_one = set_aside(plan, {QUICK: f"{UNSTEADY}, then failed"})
    with pytest.raises(UsageError, match=r"3 tests of 'numbers' passed.*more than 5%.*workers"):
        set_aside(with_one, dict.fromkeys(steady[:2], f"{UNSTEADY}, then failed"))


async def test_a_worker_that_begins_anew_in_the_middle_takes_no_failing_test_for_a_bugs(
    small: Any,
) -> None:
    unsteady(small, many=10)
    plan = Plan.load(small.folder)
    place = await Place.of(plan)
    worker = WarmPytest(plan, Settings(), Bubblewrap(), place)
    with pytest.raises(UsageError, match=r"test_that_is_quick_enough\. Call it again"):
        await worker.run({}, [DOUBLE], most=1)
    await worker.close()
    lenient = WarmPytest(plan, Settings(), Bubblewrap(), place, lenient=True)
    ran = await lenient.run({}, [DOUBLE], most=1)
    await lenient.close()
    assert ran.outcomes == {DOUBLE: "passed"}


async def test_clean_tests_that_break_off_are_none_that_fail_now_and_then(small: Any) -> None:
    small.write({"tests/conftest.py": "import os\ndef pytest_sessionfinish():\n    os._exit(3)\n"})
    planted(small)
    with pytest.raises(UsageError, match=r"crashed, it left early.*Make the plan anew"):
        await run(small, workers=1)


async def test_where_more_fail_the_plan_is_of_something_else(small: Any) -> None:
    unsteady(small, many=1)
    with pytest.raises(UsageError, match=r"do not do what the plan says.*test_that_is_quick"):
        await run(small)
    assert written(small.folder) == []
