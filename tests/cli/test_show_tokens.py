"""`rolecraft show --tokens`: which tokens a model was given, which it generated, and how."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
import torch

from rolecraft import Action, Role, Team
from rolecraft.cli._exits import ExitCode
from rolecraft.models import Sampling
from rolecraft.models.tiny_chat import byte_tokenizer, tiny_chat_model
from rolecraft.models.transformers_model import TransformersModel
from rolecraft.trajectories import Event, TokenSpan, Trajectory, load

torch.set_num_threads(1)

TASK = "é or ☂?"


class Draft(Action):
    async def run(self, history: Any) -> str:
        return await self.ask(history[-1].content, sampling=Sampling(max_tokens=6))


class Review(Action):
    async def run(self, history: Any) -> str:
        first = await self.ask("Good?", sampling=Sampling(max_tokens=4, temperature=0.5))
        return first + await self.ask("Sure?", sampling=Sampling(max_tokens=4))


class Writer(Role):
    actions = [Draft]


class Reviewer(Role):
    actions = [Review]
    watch = [Draft]


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a model, `tiny`, and `run.jsonl`, a run on it."""
    folder = tmp_path_factory.mktemp("tokens")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        tiny_chat_model().save("tiny")
        model = TransformersModel.load("tiny", device="cpu")
        asyncio.run(Team([Writer(), Reviewer()], model=model, journal="run.jsonl").run(TASK))
        asyncio.run(model.aclose())
    return folder


def spans_of(journal: Path) -> list[TokenSpan]:
    events = load(journal).of("model_call")
    return [event.tokens for event in events if event.tokens is not None]


@pytest.fixture
def journal(kept: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(kept)
    return Path("run.jsonl")


def test_every_token_is_there_with_its_text_origin_and_log_probability(
    cli: Any, journal: Path
) -> None:
    (record,) = cli("show", journal, "--tokens", "--json").lines
    spans = spans_of(journal)
    assert [(call["role"], call["call"]) for call in record["tokens"]] == [
        ("Writer", 1),
        ("Reviewer", 1),
        ("Reviewer", 2),
    ]
    for call, span in zip(record["tokens"], spans, strict=True):
        tokens, given = call["tokens"], len(span.given)
        assert [token["id"] for token in tokens] == [*span.given, *span.sampled]
        assert [token["generated"] for token in tokens[:given]] == [False] * given
        assert all(token["generated"] for token in tokens[given:])
        assert [token["logprob"] for token in tokens] == [None] * given + span.logprobs
        assert (call["start"], call["version"], call["model"]) == (span.start, 0, "tiny")
    assert [call["temperature"] for call in record["tokens"]] == [1.0, 0.5, 1.0]
    first = [token["text"] for token in record["tokens"][0]["tokens"]]
    assert "".join(first).startswith("<|im_start|>user\n")
    assert first[0] == "<|im_start|>"


def test_a_part_of_a_character_is_spelled_as_in_the_vocabulary(cli: Any, journal: Path) -> None:
    (record,) = cli("show", journal, "--tokens", "--json", "--role", "Writer").lines
    texts = [token["text"] for token in record["tokens"][0]["tokens"]]
    at = len(byte_tokenizer()("<|im_start|>user\n").input_ids)
    assert texts[at : at + 3] == ["Ã", "©", " "]
    assert not any("\N{REPLACEMENT CHARACTER}" in text for text in texts)


def test_people_read_a_line_for_each_token_under_each_call_of_each_role(
    cli: Any, journal: Path
) -> None:
    out = cli("show", journal, "--tokens").out
    span = spans_of(journal)[0]
    assert f"Writer, call 1 (event 2, round 1): {len(span.given)} injected, 6 generated" in out
    assert f"policy version 0, sequence {span.session}, temperature 1\n" in out
    assert out.index("Writer, call 1") < out.index("Reviewer, call 1") < out.index("call 2")
    lines = [line.split() for line in out.splitlines()]
    assert ["0", str(span.given[0]), "injected", '"<|im_start|>"'] in lines
    first = len(span.given)
    assert any(
        line[:4] == [str(first), str(span.sampled[0]), "generated", f"{span.logprobs[0]:.4f}"]
        for line in lines
    )
    assert "Stopped: idle" in out


def test_one_role_can_be_chosen_and_one_that_is_not_there_is_named(cli: Any, journal: Path) -> None:
    out = cli("show", journal, "--tokens", "--role", "Reviewer").out
    assert "Reviewer, call 2" in out
    assert "Writer, call" not in out
    wrong = cli("show", journal, "--tokens", "--role", "Riter")
    assert (wrong.code, "Did you mean 'Writer'" in wrong.err) == (ExitCode.USAGE, True)


def test_without_the_models_files_the_numbers_are_shown_and_a_tokenizer_can_be_named(
    cli: Any, kept: Path, tmp_path: Path
) -> None:
    """The current folder is another one, so `tiny` names nothing."""
    bare = cli("show", kept / "run.jsonl", "--tokens")
    assert bare.code == ExitCode.OK
    assert "<|im_start|>" not in bare.out
    assert "injected" in bare.out
    assert "No tokenizer of `tiny` could be loaded" in bare.err
    named = cli("show", kept / "run.jsonl", "--tokens", "--tokenizer", kept / "tiny")
    assert '"<|im_start|>"' in named.out
    assert "No tokenizer" not in named.err


def test_a_tokenizer_that_cannot_be_loaded_is_told(cli: Any, kept: Path, tmp_path: Path) -> None:
    run = kept / "run.jsonl"
    (tmp_path / "empty").mkdir()
    wrong = cli("show", run, "--tokens", "--tokenizer", tmp_path / "empty")
    assert wrong.code == ExitCode.USAGE
    assert "empty` cannot be loaded" in wrong.err
    assert "There is no model folder" in cli("show", run, "--tokens", "--tokenizer", "./no").err
    assert cli("show", run, "--tokenizer", kept / "tiny").code == ExitCode.USAGE


def test_a_run_without_tokens_says_why(cli: Any, team_file: Path) -> None:
    assert cli("run", "crew.py:team", "--task", "x").code == ExitCode.OK
    result = cli("show", "runs/crew-team.jsonl", "--tokens")
    assert result.code == ExitCode.OK
    assert "Model calls without tokens: 1." in result.err
    (record,) = cli("show", "runs/crew-team.jsonl", "--tokens", "--json").lines
    assert record["tokens"] == []


def test_odd_tokens_of_a_record_do_not_keep_it_from_being_shown(cli: Any, kept: Path) -> None:
    """Numbers that no vocabulary has, and fewer log-probabilities than tokens."""
    span = TokenSpan("s", 7, [-1, 10**9], [3, 4], [-0.5], rewrite="messages removed")
    path = Trajectory("odd", {}, [Event("model_call", role="A", tokens=span, seq=0)]).save(
        "o.jsonl"
    )
    result = cli("show", path, "--tokens", "--tokenizer", kept / "tiny")
    assert result.code == ExitCode.OK
    assert "; messages removed" in result.out
    assert [line.split()[:3] for line in result.out.splitlines() if line.startswith("  ")][1:] == [
        ["7", "-1", "injected"],
        ["8", "1000000000", "injected"],
        ["9", "3", "generated"],
        ["10", "4", "generated"],
    ]
