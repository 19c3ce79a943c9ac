"""`rolecraft evaluate` of a base model and of the same with adapters."""

from __future__ import annotations

import json

import pytest

from rolecraft.cli._exits import ExitCode
from rolecraft.models import allow_real_models

pytestmark = pytest.mark.slow


@pytest.fixture
def base(tmp_path):
    """A tiny model that knows nothing, and an adapter of random matrices for it."""
    import peft

    from rolecraft.models.transformers_model import TransformersModel
    from rolecraft.scenarios.relay import untrained

    untrained(0).save(tmp_path / "base")
    module = TransformersModel.load(tmp_path / "base").module
    config = peft.LoraConfig(r=2, target_modules=["q_proj", "v_proj"], init_lora_weights=False)
    peft.get_peft_model(module, config).save_pretrained(tmp_path / "adapter")
    return f"transformers:{tmp_path / 'base'}"


def evaluate(cli, base, tmp_path, *more):
    with allow_real_models():
        return cli(
            "evaluate", "relay", "--model", base, "--adapter", f"executor={tmp_path / 'adapter'}",
            "--tasks", 4, "--out", tmp_path / "out", "--json", *more,
        )  # fmt: skip


def test_base_and_tuned_are_compared_and_other_weights_are_refused(cli, base, tmp_path):
    shown = evaluate(cli, base, tmp_path)
    assert shown.code == ExitCode.OK, shown.err
    (line,) = shown.lines
    plain, tuned = f"relay@{base}", f"relay@{base} + adapters"
    assert [row["name"] for row in line["rows"]] == [plain, tuned]
    assert [(each["first"], each["second"]) for each in line["contrasts"]] == [(plain, tuned)]
    known = json.loads((tmp_path / "out" / "experiment.json").read_text())["variants"]
    assert "weights" in known[plain]
    assert "adapter executor" in known[tuned]
    for journal in (tmp_path / "out" / "runs").rglob("r1.jsonl"):
        served = "executor@1" in journal.read_text()
        assert served is ("adapters" in str(journal.parent.parent))

    weights = tmp_path / "base" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-4] + b"\x00\x00\x40\x40")
    again = evaluate(cli, base, tmp_path)
    assert again.code == ExitCode.USAGE
    assert "was another one" in again.err
