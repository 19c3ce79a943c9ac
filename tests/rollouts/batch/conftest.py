"""Small batches: rows in a file, a team of one role with a tool, a model that counts its calls."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from rolecraft import FunctionModel, Role, Team, tool
from rolecraft.messages import ToolCall
from rolecraft.models import Completion, ModelCall
from rolecraft.rollouts.batch.config import BatchConfig
from rolecraft.rollouts.batch.ledger import Entry, entries
from rolecraft.rollouts.batch.runner import BatchReport, run_batch


@tool
def search(query: str) -> str:
    """Search for something."""
    if query == "nothing":
        raise ValueError("found nothing")
    return f"about {query}"


@tool
def read(path: str) -> str:
    """Read a file."""
    return path


class Answers(FunctionModel):
    """Thinks and answers; looks up what comes after `find `, by whichever tool is `called`."""

    def __init__(self, *, reasoning: str = "why", called: str = "search") -> None:
        super().__init__(self.answer, name="answers", keep_calls=False)
        self.asked: list[str] = []
        """The prompts, once for each conversation."""
        self.reasoning, self.called = reasoning, called

    def answer(self, call: ModelCall) -> Completion:
        last = call.messages[-1].content
        if call.messages[-1].api_role == "tool":
            return Completion(text=f"It is {last}.", reasoning=self.reasoning)
        self.asked.append(last)
        self.before(last)
        if last.startswith("find "):
            what = {"query": last.removeprefix("find ")}
            return Completion(
                text="", reasoning=self.reasoning, tool_calls=[ToolCall(self.called, what, "c1")]
            )
        return Completion(text=f"answer to {last}", reasoning=self.reasoning)

    def before(self, prompt: str) -> None:
        """Tests put something here."""


class Bench:
    """Runs batches in a folder and reads what they leave."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.out = folder / "out"
        self.rows = folder / "rows.jsonl"
        self.model = Answers()
        self.events: list[Any] = []

    def write(self, prompts: Iterable[str | dict[str, Any]]) -> None:
        rows = [each if isinstance(each, dict) else {"prompt": each} for each in prompts]
        self.rows.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")

    def team(self) -> Team:
        return Team([Role(name="Finder", profile="a finder", tools=[search, read])])

    async def run(self, target: Any = None, **options: Any) -> BatchReport:
        """One call; `options` are of the configuration or of `run_batch`."""
        own = {name: options.pop(name) for name in list(options) if name in _OF_CONFIG}
        own.setdefault("first_wait", 0.0)
        options.setdefault("model", self.model)
        return await run_batch(
            options.pop("dataset", self.rows),
            self.team() if target is None else target,
            BatchConfig(**own),
            folder=options.pop("folder", self.out),
            on_event=self.events.append,
            **options,
        )

    @property
    def entries(self) -> list[Entry]:
        return list(entries(self.out / "ledger.jsonl"))

    def lines(self, name: str) -> list[dict[str, Any]]:
        return [json.loads(line) for line in (self.out / name).read_text("utf-8").splitlines()]

    @property
    def statistics(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.out / "statistics.json").read_text("utf-8"))
        del found["written_for"]
        return found

    def samples(self) -> list[tuple[str, int, int]]:
        """What is in the training output: row, occurrence and sample of each."""
        return [
            (row["row"], row["occurrence"], row["sample"]) for row in self.lines("openai.jsonl")
        ]


_OF_CONFIG = frozenset(BatchConfig().to_dict()) - {"model"}


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


@pytest.fixture
def answers() -> Callable[..., Answers]:
    return Answers
