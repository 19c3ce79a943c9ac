"""A key that is missing is told before anything is loaded."""

from __future__ import annotations

import sys

import pytest

from rolecraft import Role, ScriptedModel, Team
from rolecraft.cli._exits import ExitCode
from rolecraft.cli._keys import KEYS, check_keys
from rolecraft.errors import MissingKey
from rolecraft.models import LiteLLMModel

pytestmark = pytest.mark.usefixtures("without_keys")


@pytest.mark.parametrize("provider", KEYS)
def test_the_variable_of_each_provider_is_named(provider, monkeypatch):
    with pytest.raises(MissingKey, match=KEYS[provider][0]):
        check_keys([f"{provider}/model"])
    for variable in KEYS[provider]:
        with monkeypatch.context() as given:
            given.setenv(variable, "key")
            check_keys([f"{provider}/model"])


@pytest.mark.parametrize(
    "model",
    [
        None,
        "unheard-of/model",
        "human",
        ScriptedModel([]),
        LiteLLMModel("openai/mine", base_url="http://localhost:1/v1"),
        LiteLLMModel("openai/mine", api_key="key"),
    ],
)
def test_nothing_is_said_where_nothing_is_certain(model):
    check_keys([model])


def test_a_server_of_ones_own_in_the_environment_may_need_no_key(monkeypatch):
    monkeypatch.setenv("OPENAI_BASE_URL", "http://localhost:1/v1")
    check_keys(["openai/mine"])


def test_a_program_that_has_litellm_may_have_given_it_a_key(monkeypatch):
    monkeypatch.setitem(sys.modules, "litellm", object())
    check_keys(["openai/gpt-4o-mini"])


def test_a_run_is_refused_before_its_journal_is_made(process, team_file):
    """Also where the file names the model, and without importing LiteLLM."""
    team_file.write_text(
        "import sys\n"
        "from rolecraft import Role, Team\n"
        "class Loud:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        assert name != 'litellm', 'it was imported'\n"
        "sys.meta_path.insert(0, Loud())\n"
        "team = Team([Role(name='A', model='anthropic/claude-sonnet-4-5')])\n"
    )
    result = process("run", "crew.py:team", "--task", "x")
    assert result.code == ExitCode.ERROR
    assert "No API key for the model 'anthropic/claude-sonnet-4-5'" in result.err
    assert len(result.err.splitlines()) == 1
    assert not (team_file.parent / "runs").exists()


def test_roles_that_have_other_models_need_no_key_of_the_team():
    from rolecraft.cli._models import Models

    team = Team([Role(name="A", model=ScriptedModel([]))], model="openai/gpt-4o-mini")
    Models(None).check_keys(team)
