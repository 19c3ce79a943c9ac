"""From what a user writes for a model to a model."""

from __future__ import annotations

import sys

import pytest

from rolecraft.errors import ModelError, UsageError
from rolecraft.models import LiteLLMModel, ScriptedModel, resolve_model
from rolecraft.models.resolve import ACCEPTED


def test_a_model_passes_through():
    model = ScriptedModel(["x"])
    assert resolve_model(model) is model


@pytest.mark.parametrize(
    "spec",
    ["openai/gpt-4o-mini", "anthropic/claude-sonnet-4-5", "openrouter/meta-llama/llama-3:free"],
)
def test_provider_and_name_make_an_api_model(spec):
    model = resolve_model(spec)
    assert isinstance(model, LiteLLMModel)
    assert model.name == spec
    assert resolve_model(spec) is not model


def test_transformers_and_a_path_load_a_local_model(tmp_path):
    with pytest.raises(ModelError, match="holds no model"):
        resolve_model(f"transformers:{tmp_path}")
    with pytest.raises(ModelError, match=r"no model folder `\./nothing-here`"):
        resolve_model("transformers:./nothing-here")


@pytest.mark.parametrize("name", ["nope", "models/of/mine", "~/models/x", "./x", "a/"])
def test_what_can_be_no_model_of_the_hub_is_not_asked_for_there(name, monkeypatch):
    monkeypatch.setitem(sys.modules, "rolecraft.models.transformers_model", None)  # no torch yet
    with pytest.raises(ModelError, match=rf"no model folder `{name}`.*`openai-community/gpt2`"):
        resolve_model(f"transformers:{name}")


def test_a_file_is_no_folder_of_a_model(tmp_path):
    path = tmp_path / "model.safetensors"
    path.touch()
    with pytest.raises(ModelError, match="is a file"):
        resolve_model(f"transformers:{path}")


@pytest.mark.parametrize(
    "spec",
    ["", "gpt-4o-mini", "transformers:", "./mine", "/mine", "openai/", "/x", "a b/c", 7, None],
)
def test_anything_else_is_one_clear_error_that_lists_the_accepted_forms(spec):
    with pytest.raises(UsageError) as caught:
        resolve_model(spec)
    assert repr(spec) in str(caught.value)
    for form in ACCEPTED:
        assert form in str(caught.value)


def test_a_path_gets_the_hint_how_to_write_it():
    with pytest.raises(UsageError, match=r"'transformers:\./models/mine'"):
        resolve_model("./models/mine")
    with pytest.raises(UsageError, match=r"`ScriptedModel` is a class"):
        resolve_model(ScriptedModel)
