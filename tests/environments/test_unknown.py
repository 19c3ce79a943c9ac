"""What becomes of an action that the end of the process cut off: `repeat`, and `on_unknown`.

Each test kills a process in the middle of an action and goes on in this one.
"""

from __future__ import annotations

import importlib
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any, Literal

import pytest

from rolecraft import Run, Trajectory
from rolecraft.errors import OutcomeUnknown
from rolecraft.trajectories.codec import encode_event

HERE = Path(__file__).parent
PROGRAM = "import cut_off_team; cut_off_team.main()"
KEY = "run/Ann/2"

Moment = Literal["before", "after"]


class CutOff:
    """A folder with the journal of a run that was killed, and the program that made it."""

    def __init__(self, folder: Path, program: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder, self.program, self._patch = folder, program, monkeypatch
        self.journal = folder / "run.jsonl"

    def kill(self, repeat: str, moment: Moment) -> None:
        """Run the team in another process, which is killed before or after the effect."""
        self._patch.setattr(self.program.Send, "repeat", repeat)
        ended = subprocess.run(
            [sys.executable, "-c", PROGRAM, str(self.folder), repeat, moment],
            cwd=HERE,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert ended.returncode == -signal.SIGKILL, ended.stderr

    async def recover(self, **options: Any) -> Run:
        team = self.team()
        try:
            run: Run = await team.recover(self.journal, **options)
        finally:
            team.close()  # another process would
        return run

    def team(self, **options: Any) -> Any:
        return self.program.team(self.folder, **options)

    def count(self, effect: str) -> int:
        return (self.folder / "effects").read_text().splitlines().count(effect)

    @property
    def effects(self) -> list[str]:
        return (self.folder / "effects").read_text().splitlines()


@pytest.fixture
def cut_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CutOff:
    monkeypatch.syspath_prepend(str(HERE))
    return CutOff(tmp_path, importlib.import_module("cut_off_team"), monkeypatch)


def said(run: Run) -> list[str]:
    """What Ann said."""
    return [event.content for event in run.trajectory.of("message") if event.role == "Ann"]


# --- may not be done twice -------------------------------------------------------------------


@pytest.mark.parametrize("moment", ["before", "after"])
async def test_what_must_not_be_done_twice_ends_as_unknown(cut_off: CutOff, moment: Moment) -> None:
    """Whether it took effect or not: nobody can tell from here."""
    cut_off.kill("never", moment)
    sent = cut_off.count(f"{KEY} sent a letter")
    with pytest.raises(OutcomeUnknown, match="not known whether it took effect") as caught:
        await cut_off.recover()
    error = caught.value
    assert (error.role, error.action, error.key) == ("Ann", "Send", KEY)
    assert cut_off.count(f"{KEY} sent a letter") == sent


async def test_it_stays_unknown_until_somebody_decides(cut_off: CutOff) -> None:
    cut_off.kill("never", "after")
    for _ in range(2):
        with pytest.raises(OutcomeUnknown):
            await cut_off.recover()
    assert Trajectory.load(cut_off.journal).stop_reason == "error"
    run = await cut_off.recover(on_unknown="skip")
    assert run.stop == "idle"
    assert cut_off.count(f"{KEY} sent a letter") == 1


@pytest.mark.parametrize("moment", ["before", "after"])
async def test_redo_does_it_under_its_key(cut_off: CutOff, moment: Moment) -> None:
    cut_off.kill("never", moment)
    run = await cut_off.recover(on_unknown="redo")
    sent = 1 if moment == "before" else 2
    assert cut_off.count(f"{KEY} sent a letter") == sent
    assert said(run) == [
        "prepared",
        "sent a letter",
        "filed: sent a letter",
    ]


async def test_skip_goes_on_without_a_result(cut_off: CutOff) -> None:
    cut_off.kill("never", "after")
    run = await cut_off.recover(on_unknown="skip")
    assert said(run) == [
        "prepared",
        "filed: prepared",
    ]
    end = next(e for e in run.trajectory.of("action_result") if e.data.get("unknown"))
    assert end.data["result"] is None
    assert cut_off.count(f"{KEY} sent a letter") == 1


@pytest.mark.parametrize("kind", ["sync", "async"])
async def test_a_function_finds_out_and_says_the_result(cut_off: CutOff, kind: str) -> None:
    cut_off.kill("never", "after")
    asked: list[str] = []

    def find_out(error: OutcomeUnknown) -> str:
        asked.append(error.key)
        sent = any(line.startswith(error.key) for line in cut_off.effects)
        return "sent, says the log" if sent else "not sent"

    async def later(error: OutcomeUnknown) -> str:
        return find_out(error)

    on_unknown: Callable[..., Any] = find_out if kind == "sync" else later
    run = await cut_off.recover(on_unknown=on_unknown)
    assert asked == [KEY]
    assert run.message is not None
    assert "filed: sent, says the log" in said(run)
    assert cut_off.count(f"{KEY} sent a letter") == 1


async def test_the_environment_may_say_it_beforehand(cut_off: CutOff) -> None:
    cut_off.kill("never", "after")
    run = await cut_off.team(on_unknown="skip").recover(cut_off.journal)
    assert run.stop == "idle"


async def test_what_was_decided_is_recorded_and_replayed(cut_off: CutOff) -> None:
    cut_off.kill("never", "after")
    run = await cut_off.recover(on_unknown=lambda error: "sent, I think")
    again = await cut_off.team().replay(run)
    assert list(map(encode_event, again.trajectory.events)) == list(
        map(encode_event, run.trajectory.events)
    )


# --- may be done again -----------------------------------------------------------------------


@pytest.mark.parametrize("moment", ["before", "after"])
async def test_with_a_key_it_is_done_again_under_the_same_key(
    cut_off: CutOff, moment: Moment
) -> None:
    """Whoever gets the letter can tell by the key that it is the same one."""
    cut_off.kill("with_key", moment)
    run = await cut_off.recover()
    sent = 1 if moment == "before" else 2
    assert [line for line in cut_off.effects if "sent" in line] == [f"{KEY} sent a letter"] * sent
    assert run.stop == "idle"


async def test_what_was_complete_is_not_done_again(cut_off: CutOff) -> None:
    cut_off.kill("with_key", "after")
    await cut_off.recover()
    assert cut_off.count("run/Ann/1 prepared") == 1
    assert cut_off.count("run/Ann/3 filed") == 1


async def test_the_answer_that_it_had_got_is_not_asked_for_again(cut_off: CutOff) -> None:
    cut_off.kill("with_key", "after")
    team = cut_off.team()
    await team.recover(cut_off.journal)
    assert team.env.model.calls == []


async def test_freely_it_is_done_again_also_when_it_was_complete(cut_off: CutOff) -> None:
    cut_off.kill("freely", "after")
    run = await cut_off.recover()
    assert cut_off.count(f"{KEY} sent a letter") == 2
    await cut_off.recover()
    assert cut_off.count(f"{KEY} sent a letter") == 3
    assert cut_off.count("run/Ann/3 filed") == 1
    assert run.stop == "idle"


async def test_a_second_kill_in_the_recovery_changes_nothing(cut_off: CutOff) -> None:
    """The recovery stops in the same place (here by an error); the next one goes on."""

    class Killed(Exception):
        pass

    def kill() -> None:
        raise Killed

    cut_off.kill("with_key", "after")
    team = cut_off.program.team(cut_off.folder, "after", kill)
    with pytest.raises(Killed):
        await team.recover(cut_off.journal)
    team.close()
    run = await cut_off.recover()
    assert run.stop == "idle"
    assert cut_off.count(f"{KEY} sent a letter") == 3
    assert cut_off.count("run/Ann/1 prepared") == 1
