"""`rolecraft merge`: from an adapter to a model that answers through OpenAI's client."""

from __future__ import annotations

import json
import re
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import openai
import peft
import pytest
import torch
import transformers

from rolecraft.cli.merge import commit_trained_on
from rolecraft.models.tiny_chat import tiny_chat_model


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bases") / "tiny-base"
    tiny_chat_model(hidden=32, heads=2).save(folder)
    return folder


@pytest.fixture
def adapter(base: Path, tmp_path: Path) -> Path:
    module = transformers.AutoModelForCausalLM.from_pretrained(base)
    config = peft.LoraConfig(r=4, target_modules="all-linear", init_lora_weights=False)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        peft.get_peft_model(module, config).save_pretrained(str(tmp_path / "adapter"))
    return tmp_path / "adapter"


def test_it_prints_how_close_the_logits_are_and_where_the_model_is(
    cli: Callable[..., Any], adapter: Path, tmp_path: Path
) -> None:
    said = cli("merge", adapter, "--out", tmp_path / "merged")
    assert said.code == 0, said.err
    assert "tokens in 4 prompts" in said.out
    assert re.search(r"the largest difference is \S+, the mean \S+", said.out)
    assert f"serve it with: rolecraft serve {tmp_path / 'merged'}" in said.out
    again = cli("merge", adapter, "--out", tmp_path / "other", "--json", "--prompt", "Hello")
    [record] = again.lines
    assert (record["dtype"], record["prompts"]) == ("float32", 1)
    assert record["largest"] <= record["tolerance"]
    assert "rolecraft" in (tmp_path / "merged/README.md").read_text()


def test_what_cannot_be_merged_is_one_line(
    cli: Callable[..., Any], adapter: Path, base: Path, tmp_path: Path
) -> None:
    for arguments, code, says in (
        ((tmp_path / "none", "--out", tmp_path / "m"), 1, "There is no adapter in"),
        ((adapter, "--out", base), 2, "is there already"),
        ((adapter, "--out", tmp_path / "m", "--base", "nowhere"), 1, "no model folder `nowhere`"),
        ((adapter, "--out", tmp_path / "m", "--dtype", "int4"), 2, "int4"),
        ((adapter, "--out", tmp_path / "m", "--tolerance", "0"), 1, "does not say what"),
    ):
        result = cli("merge", *arguments)
        assert (result.code, says in " ".join(result.err.split())) == (code, True), result.err
    assert not (tmp_path / "m").exists()


@pytest.mark.slow
def test_a_disk_that_takes_no_more_is_told_and_leaves_nothing(
    adapter: Path, tmp_path: Path
) -> None:
    """The system refuses to make any file larger than 20,000 bytes."""
    done = subprocess.run(
        [sys.executable, "-m", "rolecraft.cli", "merge", adapter, "--out", tmp_path / "merged"],
        capture_output=True,
        text=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000)),
    )
    assert done.returncode == 1
    assert "cannot be written to" in done.stderr
    assert "Nothing was left behind" in done.stderr
    assert [each.name for each in tmp_path.iterdir()] == ["adapter"]


@pytest.mark.slow
def test_the_merged_model_is_served_to_openais_client(
    cli: Callable[..., Any], adapter: Path, tmp_path: Path
) -> None:
    assert cli("merge", adapter, "--out", tmp_path / "merged").code == 0
    command = [sys.executable, "-m", "rolecraft.cli", "serve", str(tmp_path / "merged")]
    served = subprocess.Popen(
        [*command, "--engine", "transformers", "--port", "0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        assert served.stdout is not None
        url = next(
            found[0]
            for line in served.stdout
            if line.startswith("Serving") and (found := re.search(r"http://\S+", line))
        )
        with openai.OpenAI(base_url=url, api_key="none", max_retries=0) as client:
            answer = client.chat.completions.create(
                model="merged",
                messages=[{"role": "user", "content": "Hello"}],
                max_tokens=8,
                temperature=0,
                logprobs=True,
                extra_body={"return_token_ids": True},
            )
    finally:
        served.kill()
        served.wait()
        assert served.stdout is not None
        served.stdout.close()
    choice: Any = answer.choices[0]
    given: Any = answer
    module: Any = transformers.AutoModelForCausalLM.from_pretrained(
        peft.PeftConfig.from_pretrained(str(adapter)).base_model_name_or_path
    )
    module = peft.PeftModel.from_pretrained(module, str(adapter)).eval()
    ids = list(given.prompt_token_ids)
    for token, told in zip(choice.token_ids, choice.logprobs.content, strict=True):
        with torch.no_grad():
            logp_V = module(torch.tensor([ids])).logits[0, -1].log_softmax(-1)
        assert int(logp_V.argmax()) == token
        assert told.logprob == pytest.approx(logp_V[token].item(), abs=1e-4)
        ids.append(token)


def test_the_base_from_a_hub_is_the_commit_that_the_adapter_was_trained_on(tmp_path: Path) -> None:
    """The branch may have moved since."""
    commit = "c" * 40
    settings = json.dumps({"model": "team/tiny", "commit": commit})
    (tmp_path / "settings.json").write_text(settings, "utf-8")
    assert commit_trained_on(tmp_path, "team/tiny") == commit
    assert commit_trained_on(tmp_path / "planner", "team/tiny") == commit  # one of several roles
    assert commit_trained_on(tmp_path, "team/other") is None
    assert commit_trained_on(tmp_path / "of" / "peft", "team/tiny") is None
