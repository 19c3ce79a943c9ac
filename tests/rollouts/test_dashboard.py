"""What a pipeline shows while it works is what it does."""

from __future__ import annotations

import asyncio
import io
from contextlib import aclosing
from typing import Any

from rich.console import Console

from rolecraft.errors import ModelUnavailable
from rolecraft.rollouts import PipelineEvent, PipelineSettings, rollouts
from rolecraft.rollouts.dashboard import Dashboard
from rolecraft.rollouts.tally import Tally

SETTINGS = PipelineSettings(live=3, run=2, attempts=2, backoff_seconds=0.0)


class Stages:
    async def prepare(self, item: int) -> int:
        return item

    async def run(self, item: int, live: int) -> None:
        await asyncio.sleep(0)
        if item == 4:
            raise ModelUnavailable("busy")

    async def grade(self, item: int, live: int) -> int:
        return item

    async def close(self, item: int, live: int) -> None:
        return None


async def play(on_event: Any) -> None:
    async with aclosing(rollouts(Stages(), range(9), SETTINGS, on_event=on_event)) as done:
        assert len([each async for each in done]) == 9


async def test_the_tally_is_what_happened() -> None:
    tally = Tally(9)
    most: dict[str, int] = {}

    def hear(event: PipelineEvent) -> None:
        tally(event)
        assert 0 <= tally.alive <= 3
        for stage, inside in tally.inside.items():
            most[stage] = max(most.get(stage, 0), inside)

    await play(hear)
    assert (tally.done, tally.alive, tally.most_alive, tally.again) == (9, 0, 3, 1)
    assert tally.endings == {"finished": 8, "model": 1}
    assert tally.failed == 1
    assert most["run"] == 2, "that stage has two workers"
    assert not any(tally.inside.values())
    assert "9 of 9 done" in tally.words()


async def test_without_a_terminal_there_are_plain_lines() -> None:
    text = io.StringIO()
    with Dashboard(SETTINGS, total=9, console=Console(file=text), every=0.0) as shown:
        await play(shown)
    lines = text.getvalue().splitlines()
    assert len(lines) > 9
    assert all(line.startswith("rollouts: ") and "\x1b" not in line for line in lines)
    assert "finished 8; model 1" in lines[-1]


async def test_on_a_terminal_stages_have_bars() -> None:
    text = io.StringIO()
    console = Console(file=text, force_terminal=True, width=100, height=30)
    with Dashboard(SETTINGS, total=9, console=console) as shown:
        await play(shown)
    page = text.getvalue()
    assert "0 of 2" in page, "the stage `run` has two workers"
    assert "of 3 environments alive" in page
    assert "9 of 9 done" in page


async def test_events_are_json_and_in_order() -> None:
    told: list[dict[str, Any]] = []
    await play(lambda event: told.append(event.to_dict()))
    first = [each for each in told if each["index"] == 0]
    assert [(each["what"], each.get("stage")) for each in first] == [
        ("taken", None),
        *[(what, stage) for stage in ("prepare", "run", "grade", "close")
          for what in ("begins", "ends")],
        ("done", None),
    ]  # fmt: skip
    fourth = [each for each in told if each["index"] == 4]
    assert [each["error"] for each in fourth if each["what"] == "again"] == [
        "ModelUnavailable: busy"
    ]
    assert fourth[-1]["ended"] == "model"
    times = [each["time"] for each in told]
    assert times == sorted(times)
