"""Where a model is not available, the next one is asked the same."""

from __future__ import annotations

import asyncio

import pytest

from rolecraft import FunctionModel, ScriptedModel
from rolecraft.errors import (
    BadModelResponse,
    LimitReached,
    MissingKey,
    ModelError,
    ModelUnavailable,
    UsageError,
)
from rolecraft.messages import Message
from rolecraft.models import (
    Completion,
    FallbackModel,
    HumanModel,
    Limits,
    LiteLLMModel,
    Model,
    Session,
    resolve_model,
)
from rolecraft.models.budget import Budget
from rolecraft.trajectories import Usage


class Switch:
    """A model that answers while it is up."""

    def __init__(self, name="first", error=None) -> None:
        self.up, self.error = True, error or ModelUnavailable("gone", attempts=3, status=503)
        self.model = FunctionModel(self._answer, name=name)

    def _answer(self, call):
        if not self.up:
            raise self.error
        return f"{self.model.name}: {len(call.messages)}"

    @property
    def asked(self) -> int:
        return len(self.model.calls)


async def ask(model, text="?"):
    return await model.session("Ann").generate([Message(text)])


async def test_the_first_answers_while_it_can_and_the_next_sees_the_whole_conversation():
    first, second = Switch(), Switch("second")
    model = FallbackModel([first.model, second.model])
    session = model.session("Ann", system="be brief")
    answer = await session.generate([Message("one")])
    assert (answer.text, answer.model, answer.passed_over) == ("first: 2", "first", [])
    first.up = False
    answer = await session.generate([Message("two")])
    assert (answer.text, answer.model) == ("second: 4", "second")
    assert answer.passed_over == [{"model": "first", "error": "gone", "attempts": 3}]
    assert model.name == "first | second"


@pytest.mark.parametrize(
    "error", [UsageError("wrong"), MissingKey("no key"), ModelError("refused", status=400)]
)
async def test_what_another_model_would_not_mend_comes_out(error):
    first, second = Switch(error=error), Switch("second")
    first.up = False
    with pytest.raises(type(error)):
        await ask(FallbackModel([first.model, second.model]))
    assert second.asked == 0


async def test_an_answer_that_is_none_is_passed_over_too():
    first, second = Switch(error=BadModelResponse("html")), Switch("second")
    first.up = False
    assert (await ask(FallbackModel([first.model, second.model]))).model == "second"


async def test_one_that_was_passed_over_rests_and_is_then_tried_by_one_call():
    now = [0.0]
    first, second = Switch(), Switch("second")
    model = FallbackModel([first.model, second.model], cool_down=60, clock=lambda: now[0])
    first.up = False
    for _ in range(5):
        assert (await ask(model)).model == "second"
    assert first.asked == 1
    assert model.available == (second.model,)
    now[0] = 60
    assert (await ask(model)).model == "second"
    assert first.asked == 2
    first.up, now[0] = True, 120
    assert (await ask(model)).model == "first"
    assert len(model.available) == 2


async def test_while_one_call_tries_the_others_go_past():
    now, come = [0.0], asyncio.Event()
    tries = []

    async def slow(call):
        tries.append(call)
        if len(tries) == 1:
            raise ModelUnavailable("gone")
        await come.wait()
        return "back"

    model = FallbackModel(
        [FunctionModel(slow, name="first"), Switch("second").model], clock=lambda: now[0]
    )
    await ask(model)
    now[0] = 61
    trial = asyncio.create_task(ask(model))
    await asyncio.sleep(0)
    assert {(await ask(model)).model for _ in range(5)} == {"second"}
    assert len(tries) == 2
    come.set()
    assert (await trial).text == "back"


async def test_if_none_is_left_all_are_tried_and_the_error_names_each():
    first, second = Switch(), Switch("second", ModelUnavailable("used up", attempts=1))
    model = FallbackModel([first.model, second.model])
    first.up = second.up = False
    with pytest.raises(ModelUnavailable, match=r"None of 2 models.*gone.*used up") as caught:
        await ask(model)
    assert (caught.value.model, caught.value.attempts) == ("first | second", 4)
    first.up = True
    assert (await ask(model)).model == "first", "at rest, and still better than none"


async def test_what_was_billed_in_vain_is_part_of_the_usage():
    error = ModelUnavailable("gone", usage=Usage(7, 1, 0.5))
    first = Switch(error=error)
    first.up = False
    paid = FunctionModel(lambda call: Completion(text="yes", usage=Usage(10, 2, 0.25)))
    answer = await ask(FallbackModel([first.model, paid]))
    assert (answer.usage.prompt_tokens, answer.usage.usd, answer.usage.calls) == (17, 0.75, 1)
    assert answer.passed_over[0]["usage"]["usd"] == 0.5


class Priced(Model):
    real = False

    def __init__(self, name, usd):
        self.name, self.usd = name, usd

    def estimate_usd(self, session, sampling, tools=()):
        return self.usd

    def estimate_tokens(self, session, sampling, tools=()):
        return 10

    async def _complete(self, session, tools, sampling):
        return Completion(text="yes", usage=Usage(5, 5, self.usd))


async def test_a_budget_holds_what_the_dearest_may_cost():
    model = FallbackModel([Priced("cheap", 0.1), Priced("dear", 0.9)])
    session = model.session("Ann")
    session.budget = Budget(Limits(usd=0.8))
    with pytest.raises(LimitReached):
        await session.generate([Message("?")])
    session.budget = Budget(Limits(usd=0.9))
    await session.generate([Message("?")])
    assert session.budget.spent.usd == pytest.approx(0.1)
    assert FallbackModel([Priced("a", 0.1), Priced("b", None)]).estimate_usd(session, None) is None


class Exact(ScriptedModel):
    def session(self, role="", *, system="", seed=0):
        return Session(self, role=role, system=system, seed=seed)


@pytest.mark.parametrize("other", [Exact([]), HumanModel(lambda question: "yes")])
def test_models_with_conversations_of_their_own_and_people_cannot_be_members(other):
    with pytest.raises(UsageError, match="cannot be one of several"):
        FallbackModel([ScriptedModel([]), other])


@pytest.mark.parametrize("models", [[], ["openai/a"], "openai/a"])
def test_one_model_alone_is_no_list_of_models(models):
    with pytest.raises(UsageError, match="two models or more"):
        FallbackModel(models)


def test_names_with_a_bar_between_are_a_fallback_and_only_the_last_is_patient():
    model = resolve_model("openai/a | anthropic/b")
    assert isinstance(model, FallbackModel)
    first, last = model.models
    assert isinstance(first, LiteLLMModel)
    assert (first.name, last.name) == ("openai/a", "anthropic/b")
    assert (first.retries.times, last.retries.times) == (1, 5)
    with pytest.raises(UsageError):
        resolve_model("openai/a |")


async def test_over_http_a_server_without_money_is_passed_over(server, make_model):
    server.answers(
        server.error(429, "You exceeded your quota", "insufficient_quota"), server.chat()
    )
    model = FallbackModel([make_model(), make_model("openai/other")])
    answer = await ask(model)
    assert (answer.text, answer.model) == ("hello", "openai/other")
    assert [request["model"] for request in server.requests] == ["some-model", "other"]


async def test_two_servers_with_one_model_name_have_a_row_each(server, make_model):
    server.answers(server.error(429, "no money", "insufficient_quota"), server.chat())
    urls = [make_model().base_url, make_model().base_url.replace("127.0.0.1", "localhost")]
    model = FallbackModel([make_model(base_url=url, prices=(1.0, 1.0)) for url in urls])
    names = [f"{make_model().name} at {url}" for url in urls]
    answer = await ask(model)
    assert [row["model"] for row in answer.passed_over] == names[:1]
    assert answer.model == names[1]
    assert model.name == " | ".join(names)
