"""A judge that is the policy, in any disguise, is refused before anything is played."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from rolecraft import Action, Message, Role, ScriptedModel
from rolecraft.environments.web_research import (
    JudgeIsPolicy,
    Researcher,
    ResearchJudge,
    WebResearchEnvironment,
)
from rolecraft.environments.web_research.examples import example_web, questions
from rolecraft.models import (
    CachedModel,
    FallbackModel,
    LiteLLMModel,
    Model,
    Phases,
    PromptCache,
    allow_real_models,
)

TASK = questions()[0].task()
SERVED = "http://localhost:8000/v1"


def environment(policy: Model | str | None, judge: Model | str) -> WebResearchEnvironment:
    return WebResearchEnvironment(TASK, [Researcher(model=policy)], web=example_web(), judge=judge)


@pytest.mark.parametrize(
    ("policy", "judge"),
    [
        ("openai/gpt-4o", "openai/gpt-4o"),
        ("openai/gpt-4o", "azure/gpt-4o"),
        ("openai/gpt-4o", "openrouter/openai/GPT-4o"),
        ("openai/o3 | openai/gpt-4o", "openai/gpt-4o"),
        ("transformers:Qwen/Qwen3-0.6B", "hosted_vllm/Qwen/Qwen3-0.6B"),
        ("openai/gpt-4o", FallbackModel(["openai/o3", "openai/gpt-4o"])),
        (Phases(api="openai/o3", local="transformers:there/is-none"), "openai/o3"),
        (
            LiteLLMModel("openai/policy", base_url=SERVED),
            LiteLLMModel("openai/base", base_url=SERVED),
        ),
        (
            LiteLLMModel("openai/policy", base_url=SERVED),
            LiteLLMModel("openai/base", base_url=SERVED + "/"),
        ),
    ],
    ids=str,
)
def test_the_same_model_or_the_same_server_is_refused(
    policy: Model | str, judge: Model | str
) -> None:
    with pytest.raises(JudgeIsPolicy, match="another model as the judge") as caught:
        environment(policy, judge)
    assert caught.value.role == "Researcher"


def test_the_model_of_any_role_counts_and_that_of_the_environment() -> None:
    roles = [Researcher(model="openai/o3"), Role(name="Ada", model="openai/gpt-4o")]
    with pytest.raises(JudgeIsPolicy, match="'Ada'"):
        WebResearchEnvironment(TASK, roles, web=example_web(), judge="openai/gpt-4o")
    with pytest.raises(JudgeIsPolicy, match="'Researcher'"):
        WebResearchEnvironment(
            TASK, [Researcher()], web=example_web(), judge="openai/gpt-4o", model="openai/gpt-4o"
        )


async def test_a_model_that_is_set_later_is_looked_at_when_the_episode_begins() -> None:
    judge = ScriptedModel([])
    made = environment(None, judge)
    made.roles["Researcher"].model = judge
    with pytest.raises(JudgeIsPolicy, match="the same model"):
        await made.episode()


def test_a_cache_does_not_hide_who_answers(tmp_path: Path) -> None:
    model = ScriptedModel([])
    with pytest.raises(JudgeIsPolicy):
        environment(model, CachedModel(model, PromptCache(tmp_path)))


class Served(ScriptedModel):
    """A double that passes for a model behind an API."""

    real = True


class AskTheJudge(Action):
    async def run(self, history: Sequence[Message]) -> str:
        session = self.open_session(model=Served(["the answer is 13"], name="azure/o3"))
        return (await session.generate([Message("What would you say?")])).text


async def test_a_model_that_only_an_action_asked_is_found_in_the_record() -> None:
    roles = [Role(name="Ada", actions=[AskTheJudge], model="openai/gpt-4o")]
    made = WebResearchEnvironment(
        TASK, roles, web=example_web(), answers="Ada", judge=Served([], name="openai/o3")
    )
    with allow_real_models(), pytest.raises(JudgeIsPolicy, match="'azure/o3'"):
        await made.episode()


@pytest.mark.parametrize(
    ("policy", "judge"),
    [
        ("openai/gpt-4o-mini", "openai/gpt-4o"),
        (LiteLLMModel("openai/policy", base_url=SERVED), "openai/o3"),
        (ScriptedModel([]), ScriptedModel([])),
    ],
    ids=str,
)
def test_another_model_may_judge(policy: Model | str, judge: Model | str) -> None:
    made = environment(policy, judge)
    assert isinstance(made.judge, ResearchJudge)
