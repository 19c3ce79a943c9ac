"""What `RayStages` says before anything is sent anywhere."""

from __future__ import annotations

import asyncio
import importlib
import threading
from functools import partial
from typing import Any

import pytest

from rolecraft import ScriptedModel
from rolecraft.errors import MissingExtra, ModelUnavailable, SandboxError, UsageError
from rolecraft.rollouts import PipelineSettings, Records, ScenarioStages, rollouts
from rolecraft.rollouts.endings import is_worth_another_try, of_error
from rolecraft.rollouts.remote import NotSendable, RaisedInWorker, RayStages, WorkerLost
from rolecraft.rollouts.remote._cluster import actor_options
from rolecraft.rollouts.remote._transit import answered, taken
from rolecraft.rollouts.remote._workers import Seat, Workers
from rolecraft.scenarios.relay import relay


async def entered(stages: RayStages[Any, Any]) -> None:
    async for _ in rollouts(stages, [], PipelineSettings()):
        pass


async def test_without_ray_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    def none(name: str) -> Any:
        raise ImportError(name)

    monkeypatch.setattr(importlib, "import_module", none)
    with pytest.raises(MissingExtra, match=r"needs `ray`.*pip install '\.\[ray\]'"):
        await entered(RayStages(ScenarioStages(relay)))


def test_it_is_stages_that_record() -> None:
    assert isinstance(RayStages(ScenarioStages(relay)), Records)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"workers": 0}, "`workers` is 0"),
        ({"places": True}, "`places` is True"),
        ({"tool_workers": 1.5}, "`tool_workers` is 1.5"),
    ],
)
def test_a_wrong_option_names_itself(options: dict[str, Any], text: str) -> None:
    with pytest.raises(UsageError, match=text):
        RayStages(ScenarioStages(relay), **options)


def test_what_is_neither_stages_nor_a_function_is_refused() -> None:
    with pytest.raises(UsageError, match="expected stages or a function"):
        RayStages("relay")  # type: ignore[arg-type]


def test_resources_go_by_rays_names() -> None:
    options = actor_options({"CPU": 2, "GPU": 0.5, "fast-disk": 1}, {"env_vars": {"A": "1"}}, 9)
    assert options["num_cpus"] == 2
    assert options["num_gpus"] == 0.5
    assert options["resources"] == {"fast-disk": 1}
    assert options["runtime_env"] == {"env_vars": {"A": "1"}}
    with pytest.raises(UsageError, match=r"`resources\['CPU'\]` is -1"):
        actor_options({"CPU": -1}, None, 9)


@pytest.mark.parametrize(
    ("address", "text"),
    [
        ("127.0.0.1:1", "No Ray cluster answers at `address='127.0.0.1:1'`: .*ray start --head"),
        ("127.0.0.1:99999", "No Ray cluster answers"),
        ("ray://somewhere:10001", "write HOST:PORT"),
        ("somewhere", "write HOST:PORT"),
    ],
)
async def test_an_address_without_a_cluster_is_told_at_once(
    address: str, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ray.is_initialized", lambda: False)
    with pytest.raises(UsageError, match=text):
        await entered(RayStages(ScenarioStages(relay), address=address))


# --- what cannot be sent -------------------------------------------------------------------------


async def test_a_model_that_cannot_be_pickled_is_named_with_the_way_out() -> None:
    stages = ScenarioStages(relay, role_models={"planner": ScriptedModel(["a"])})
    with pytest.raises(NotSendable, match=r"a function that makes the stages") as caught:
        await entered(RayStages(stages))
    assert "['planner']" in caught.value.path


async def test_a_lock_in_a_closure_is_named() -> None:
    lock = threading.Lock()

    def make(more: object) -> Any:
        with lock:
            return ScenarioStages(relay)

    with pytest.raises(NotSendable) as caught:
        await entered(RayStages(partial(make, 1)))
    assert caught.value.path == "stages.func, variable lock"
    assert "`_thread.lock`" in str(caught.value)


async def test_a_global_of_a_class_that_is_sent_whole_is_named() -> None:
    scope: dict[str, Any] = {"__name__": "__main__", "lock": threading.Lock()}
    exec("class Mine:\n    def prepare(self):\n        return lock\n", scope)
    with pytest.raises(NotSendable) as caught:
        await entered(RayStages(scope["Mine"]()))
    assert caught.value.path == "stages, class Mine.prepare, global lock"


# --- answers -------------------------------------------------------------------------------------


class Stubborn(Exception):
    """An error that cannot be unpickled: its constructor wants two arguments."""

    def __init__(self, one: str, two: str) -> None:
        super().__init__(f"{one} and {two}")


class Lost(SandboxError):
    def __init__(self) -> None:
        super().__init__("the machine is gone")
        self.lock = threading.Lock()


async def raising(error: BaseException) -> None:
    raise error


async def test_what_a_worker_raised_is_raised_here_with_a_note_of_where() -> None:
    error = ModelUnavailable("busy", model="m", attempts=3, status=503)
    with pytest.raises(ModelUnavailable, match="busy") as caught:
        taken(await answered(raising(error), "on another machine"))
    assert (caught.value.status, caught.value.attempts) == (503, 3)
    assert "raised on another machine:\nTraceback" in caught.value.__notes__[0]


@pytest.mark.parametrize(
    ("error", "kind", "text"),
    [
        (Stubborn("this", "that"), RaisedInWorker, "Stubborn: this and that"),
        (Lost(), SandboxError, "Lost: the machine is gone"),
    ],
)
async def test_an_error_that_cannot_travel_has_a_stand_in_of_its_kind(
    error: Exception, kind: type[Exception], text: str
) -> None:
    with pytest.raises(kind, match=text) as caught:
        taken(await answered(raising(error), "there"))
    assert type(caught.value) is kind
    assert of_error(caught.value, "run") == of_error(error, "run")


async def test_a_stage_that_was_cancelled_there_is_cancelled_here() -> None:
    with pytest.raises(asyncio.CancelledError):
        taken(await answered(raising(asyncio.CancelledError()), "there"))


async def test_a_result_that_cannot_be_pickled_is_an_error_that_names_it() -> None:
    async def result() -> Any:
        return {"lock": threading.Lock()}

    with pytest.raises(NotSendable, match="Let `grade` return what can be pickled") as caught:
        taken(await answered(result(), "there"))
    assert caught.value.path == "result['lock']"


def test_a_lost_worker_is_the_environments_doing_and_worth_another_try() -> None:
    error = WorkerLost(3, "ActorDiedError: the node died")
    assert "Worker 3 was lost" in str(error)
    for stage in ("prepare", "run", "grade"):
        assert is_worth_another_try(error, stage)  # type: ignore[arg-type]
    assert of_error(error, "run") == of_error(error, "prepare") == "environment"


async def test_a_worker_that_was_lost_a_moment_ago_gets_no_item() -> None:
    workers = Workers(
        b"", count=2, places=4, tool_workers=1, resources={"CPU": 1}, runtime_env=None
    )
    lost, living = (Seat(number, None, asyncio.Event()) for number in range(2))
    workers._ready += [lost, living]
    living.taken = 3
    assert await workers.place() is lost
    lost.free()
    lost.gone.set()
    assert await workers.place() is living
