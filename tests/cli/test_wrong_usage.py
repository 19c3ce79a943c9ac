"""A wrong command line has exit code 2 in every command that reads traces or labels."""

from __future__ import annotations

import pytest

from rolecraft.cli._exits import ExitCode
from rolecraft.cli._wording import in_words_of_commands
from rolecraft.errors import UsageError
from rolecraft.failure_taxonomy import get_mode
from rolecraft.failure_taxonomy.labels import Labels, write_labels
from rolecraft.models import FunctionModel, Limits
from rolecraft.models.budget import Budget
from rolecraft.models.limits import Crossing
from rolecraft.trajectories import Event, Trajectory


@pytest.fixture
def trace(tmp_path, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    events = [Event("message", role="ann", content="done", seq=0)]
    write_labels([Labels(trace="run.jsonl", annotator="ann")], tmp_path / "labels.jsonl")
    return Trajectory("run", {}, events).save(tmp_path / "run.jsonl")


@pytest.mark.parametrize(
    "arguments",
    [
        "annotate",
        "blame --judge openai/o3",
        "report",
        "compare nothing.jsonl",
        "agreement nothing.jsonl",
        "labels",
        "show",
    ],
)
def test_a_file_that_does_not_exist(cli, arguments):
    result = cli(*arguments.split(), "nothing.jsonl")
    assert result.code == ExitCode.USAGE
    assert "`nothing.jsonl`" in result.err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("annotate run.jsonl --format rolcraft", "Did you mean 'rolecraft'"),
        ("blame run.jsonl --judge openai/o3 --format rolcraft", "Did you mean 'rolecraft'"),
        ("annotate run.jsonl --judge openai/o3 --agreement nothing.json", "nothing.json"),
        ("annotate run.jsonl --judge openai/o3 --samples 3 --agree 0.4", "more than half"),
        ("annotate run.jsonl --modes nothing.toml", "nothing.toml"),
        ("report labels.jsonl --by folders", "Did you mean 'folder'"),
        ("compare labels.jsonl labels.jsonl --mode resets", "Did you mean 'reset'"),
        ("agreement labels.jsonl labels.jsonl --annotator bob", "bob"),
        ("show run.jsonl --role bob --diagram state", "bob"),
    ],
)
def test_a_value_that_an_option_cannot_have(cli, trace, arguments, said):
    result = cli(*arguments.split())
    assert result.code == ExitCode.USAGE
    assert said in result.err


def test_an_error_names_no_option_that_the_command_has_not(cli, tmp_path):
    """`rescore` named `--max-tokens` once, which is of commands that annotate."""
    (tmp_path / "own.py").write_text(
        "from rolecraft.errors import UsageError\n"
        "def load(signals): pass\n"
        "said = '`Sampling(max_tokens=...)` lowers it. '\n"
        "raise UsageError(said + 'Give `LiteLLMModel(api_key=...)` or set `A_KEY`.')\n"
    )
    Trajectory("run", {}, [Event("message", role="ann", seq=0)]).save(tmp_path / "run.jsonl")
    said = cli("rescore", "run.jsonl", "--reward", "own.py:load").err
    assert "`Sampling(max_tokens=...)` lowers it. Set `A_KEY`." in said


class _Paid(FunctionModel):
    """A model behind an API whose price nobody knows."""

    real = True


async def _unpriced():
    await Budget(Limits(usd=1.0)).hold(_Paid(lambda call: "", name="m"))


async def _used_up():
    raise UsageError(str(Crossing(limit="tokens", allowed=10, used=5, needed=9, doing="a call")))


async def _no_mode():
    get_mode("nothing.known")


@pytest.mark.parametrize(
    ("raises", "python"),
    [(_unpriced, "prices="), (_used_up, "Sampling("), (_no_mode, "load_modes")],
)
async def test_errors_of_the_library_are_known_by_their_words(raises, python):
    """Reworded there, they would keep Python's words here."""
    with pytest.raises(UsageError) as raised:
        await raises()
    assert python in str(raised.value)
    assert python not in in_words_of_commands(str(raised.value))


def test_what_only_a_program_can_write_becomes_an_option():
    for text in (
        "Give it `prices=(usd_per_prompt_token, usd_per_answer_token)`, or limit `tokens` or "
        "`calls` instead.",
        "`Sampling(max_tokens=...)` lowers what it may cost.",
        "Try again later, or allow more with `LiteLLMModel(retries=...)`.",
    ):
        said = in_words_of_commands(text)
        for python in ("prices=", "Sampling(", "LiteLLMModel("):
            assert python not in said
    assert in_words_of_commands("`Sampling(max_tokens=...)` lowers it.") == (
        "`--max-tokens` lowers it."
    )
