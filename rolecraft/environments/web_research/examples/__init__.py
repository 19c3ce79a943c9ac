"""Questions about islands that do not exist, and a small corpus that answers them.

Nobody knows the answers by heart: whoever has them has read the pages. Everything runs offline.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from rolecraft.environments.web_research.corpus import Corpus
from rolecraft.environments.web_research.tasks import Question
from rolecraft.environments.web_research.tools import Step
from rolecraft.environments.web_research.web import Web

_HERE = Path(__file__).parent
CORPUS = _HERE / "corpus"
"""The folder of documents."""


@dataclass(frozen=True, slots=True)
class Example:
    """A question, and how it can be answered from the corpus."""

    question: Question
    looks: tuple[tuple[str, str], ...]
    """What to search for, and the address to read then."""
    steps: tuple[Step, ...]
    """The steps to the answer."""


@cache
def examples() -> dict[str, Example]:
    """All examples by id."""
    found: dict[str, Example] = {}
    for line in (_HERE / "questions.jsonl").read_text("utf-8").splitlines():
        row = json.loads(line)
        reference = row.pop("reference")
        found[row["id"]] = Example(
            Question(**row),
            tuple((look["query"], look["address"]) for look in reference["looks"]),
            tuple(Step(**step) for step in reference["steps"]),
        )
    return found


def questions() -> list[Question]:
    """The questions of the examples."""
    return [example.question for example in examples().values()]


@cache
def example_web() -> Web:
    """The corpus as a web, made once."""
    corpus = Corpus.of_folder(CORPUS)
    return Web(search=corpus, pages=corpus)
