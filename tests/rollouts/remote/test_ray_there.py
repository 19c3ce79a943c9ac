"""What stages find in a worker is what they would find in the process of the pipeline."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import aclosing, suppress
from decimal import Context, getcontext, setcontext
from pathlib import Path
from typing import Any

import pytest

from rolecraft.errors import UsageError
from rolecraft.rollouts import PipelineSettings, StageTimeout, rollouts
from rolecraft.rollouts.remote import NotSendable, RayStages, WorkerLost
from rolecraft.sandboxes import Remote

pytestmark = [
    pytest.mark.slow,
    pytest.mark.usefixtures("nodes", "sent_along"),
    # Ray's, of its own sockets and processes.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]
# Files of signs are a matter of microseconds.
# ruff: noqa: ASYNC240

QUICK = PipelineSettings(live=4, attempts=1)
PATIENCE = 120.0


async def played(stages: Any, items: Any, settings: PipelineSettings = QUICK) -> list[Any]:
    async with aclosing(rollouts(stages, items, settings)) as done:
        return sorted([rollout async for rollout in done], key=lambda rollout: rollout.index)


# --- sandboxes of another host -------------------------------------------------------------------


@pytest.fixture
def sandbox_server() -> Iterator[str]:
    """The address of a `rolecraft sandbox-server`."""
    words = ["sandbox-server", "--provider", "local", "--no-token", "--port", "0"]
    process = subprocess.Popen(
        [sys.executable, "-m", "rolecraft.cli", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert process.stdout is not None
    line = process.stdout.readline()
    yield next(word for word in line.split() if word.startswith("http://")).rstrip(".,")
    process.terminate()
    process.wait(60)
    process.stdout.close()


class InSandbox:
    """Runs each item's command in a sandbox of the provider, which is sent along."""

    def __init__(self, provider: Remote) -> None:
        self.provider = provider

    async def __aenter__(self) -> InSandbox:
        await self.provider.__aenter__()
        return self

    async def __aexit__(self, *error: Any) -> None:
        await self.provider.__aexit__(*error)

    async def prepare(self, item: str) -> Any:
        return await self.provider.create()

    async def run(self, item: str, live: Any) -> None:
        await live.write("said", item)

    async def grade(self, item: str, live: Any) -> tuple[str, int]:
        return (await live.run(["cat", "said"])).stdout, os.getpid()

    async def close(self, item: str, live: Any) -> None:
        await live.aclose() if hasattr(live, "aclose") else await live.close()


async def test_sandboxes_of_a_server_are_used_from_a_worker(sandbox_server: str) -> None:
    items = [f"item {n}" for n in range(6)]
    results = await played(RayStages(InSandbox(Remote(sandbox_server)), workers=1), items)
    assert [result.error or result.episode[0] for result in results] == items
    assert {result.close_error for result in results} == {None}
    assert os.getpid() not in {result.episode[1] for result in results}


# --- as in one process ---------------------------------------------------------------------------


class Spanning:
    """What one stage opens, another closes: a context variable, a time limit."""

    async def prepare(self, item: int) -> Any:
        setcontext(Context(prec=item + 1))
        limit = asyncio.timeout(PATIENCE)
        await limit.__aenter__()
        return limit

    async def run(self, item: int, live: Any) -> None:
        await asyncio.sleep(0)

    async def grade(self, item: int, live: Any) -> tuple[int, bytes]:
        return getcontext().prec, bytes(2**20)

    async def close(self, item: int, live: Any) -> None:
        await live.__aexit__(None, None, None)


@pytest.mark.parametrize("there", [False, True])
async def test_what_one_stage_opens_another_may_close(there: bool) -> None:
    stages = RayStages(Spanning(), workers=1) if there else Spanning()
    results = await played(stages, range(6))
    assert [(r.episode, r.close_error) for r in results] == [
        ((n + 1, bytes(2**20)), None) for n in range(6)
    ]


class Deaf:
    """The stage that an item names does not end when it is cancelled, until there is a file."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    async def prepare(self, item: str) -> Path:
        await self.deaf(item, "prepare")
        sign = self.folder / f"alive {item}"
        sign.touch()
        return sign

    async def run(self, item: str, live: Path) -> None:
        await self.deaf(item, "run")

    async def grade(self, item: str, live: Path) -> str:
        return item

    async def close(self, item: str, live: Path) -> None:
        live.unlink()
        (self.folder / f"closed {item}").touch()

    async def deaf(self, item: str, stage: str) -> None:
        while item == stage and not (self.folder / "enough").exists():
            with suppress(asyncio.CancelledError):
                await asyncio.sleep(0.01)


async def test_what_does_not_end_there_costs_its_own_item_only_and_is_closed(
    tmp_path: Path,
) -> None:
    limits: dict[str, Any] = {f"{stage}_seconds": 8.0 for stage in ("prepare", "run", "grade")}
    settings = PipelineSettings(live=2, attempts=1, close_seconds=5.0, **limits)

    async def items() -> Any:
        yield "prepare"
        yield "run"
        for n in range(6):
            yield f"other {n}"
        (tmp_path / "enough").touch()

    results = await played(RayStages(Deaf(tmp_path), workers=1), items(), settings)
    assert [r.ended for r in results] == ["environment", "seconds", *["finished"] * 6]
    assert isinstance(results[0].error, StageTimeout)
    assert isinstance(results[1].error, StageTimeout)
    assert not list(tmp_path.glob("alive *"))
    # What a late `prepare` still made was closed as well.
    assert (tmp_path / "closed prepare").exists()
    assert (tmp_path / "closed run").exists()


# --- what comes out at once ----------------------------------------------------------------------


class Locked(Spanning):
    async def __aenter__(self) -> Locked:
        raise PermissionError("the cellar is locked")

    async def __aexit__(self, *error: object) -> None:
        raise AssertionError("it was not entered")


async def test_what_entering_the_stages_raises_there_comes_out(nodes: Any) -> None:
    with pytest.raises(PermissionError, match="the cellar is locked"):
        await played(RayStages(Locked), range(3))


async def test_a_module_that_workers_have_not_is_named() -> None:
    class Elsewhere:
        def __call__(self) -> Any:
            raise AssertionError("it cannot be read")

        def __reduce__(self) -> Any:
            from ray import cloudpickle

            return cloudpickle.loads, (b"cnowhere_to_be_found\nthing\n.",)

    with pytest.raises(UsageError, match="No module named 'nowhere_to_be_found'"):
        await played(RayStages(Elsewhere()), range(3))


async def test_workers_that_find_no_resources_are_told_with_what_there_is() -> None:
    stages = RayStages(Spanning(), resources={"a_gpu_of_the_future": 1}, start_seconds=2.0)
    with pytest.raises(UsageError, match=r"'a_gpu_of_the_future': 1.*the cluster has .*'CPU': 1"):
        await played(stages, range(3))


async def test_workers_that_die_at_their_start_are_given_up() -> None:
    def dies() -> Any:
        os._exit(1)

    with pytest.raises(WorkerLost, match="No worker is left"):
        await played(RayStages(dies), range(3))


async def test_a_result_that_cannot_be_pickled_is_that_items_error() -> None:
    class Unsendable(Spanning):
        async def grade(self, item: int, live: Any) -> Any:
            return live if item == 1 else item

    results = await played(RayStages(Unsendable(), workers=1), range(3))
    assert [result.episode for result in results] == [0, None, 2]
    assert results[1].ended == "grading"
    assert isinstance(results[1].error, NotSendable)


async def test_a_worker_has_the_variables_that_its_environment_shall_have() -> None:
    class Telling(Spanning):
        async def grade(self, item: int, live: Any) -> Any:
            return os.environ.get("WORD_OF_THE_TEST")

    stages = RayStages(Telling(), runtime_env={"env_vars": {"WORD_OF_THE_TEST": "relay"}})
    assert [result.episode for result in await played(stages, range(2))] == ["relay"] * 2
