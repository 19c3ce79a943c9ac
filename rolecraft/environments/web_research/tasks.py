"""Questions as tasks. Which split one is in is told by its words alone, the same for ever."""

from __future__ import annotations

import hashlib
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from rolecraft.environments.task import Split, Task
from rolecraft.errors import UsageError
from rolecraft.models.hashing import hash64


@dataclass(frozen=True, slots=True)
class Question:
    """A question with its right answer, other spellings of that, and the pages it needs.

    `kinds` are the kinds of reasoning it takes; `id` is made of the question unless given.
    """

    question: str
    answer: str
    aliases: Sequence[str] = ()
    links: Sequence[str] = ()
    kinds: Sequence[str] = ()
    id: str = ""
    more: dict[str, Any] = field(default_factory=dict)
    """Columns of a data set that are none of these."""

    def __post_init__(self) -> None:
        for name in ("question", "answer"):
            if not isinstance(getattr(self, name), str) or not getattr(self, name).strip():
                raise UsageError(f"`Question({name}={getattr(self, name)!r})` must be a text.")
        for name in ("aliases", "links", "kinds"):
            values = getattr(self, name)
            if isinstance(values, str) or not all(isinstance(value, str) for value in values):
                raise UsageError(f"`Question({name}={values!r})` must be a list of texts.")

    @property
    def name(self) -> str:
        """The id of its task."""
        return self.id or f"research-{mark(self.question)[:12]}"

    def task(self) -> Task:
        """The task to answer it. All but the question is in its `data`, which no role sees."""
        data: dict[str, Any] = {
            "question": self.question,
            "answer": self.answer,
            "aliases": list(self.aliases),
            "links": list(self.links),
            "kinds": list(self.kinds),
        }
        if self.more:
            data["more"] = dict(self.more)
        return Task(self.name, self.question, data)


class ResearchTasks:
    """A `TaskSource` of questions.

    `held_out` is the share of them in `test`. A question is in the same split on every machine, in
    every run and beside whatever others, so that nothing leaks when a data set grows or a run is
    taken up again. The order is drawn from the seed; it begins again when all were there. Raises
    `UsageError` for a question, or an id, that comes twice.
    """

    def __init__(self, questions: Iterable[Question], *, held_out: float = 0.2) -> None:
        self.questions: dict[str, Question] = {}
        seen: set[str] = set()
        for each in questions:
            if each.name in self.questions or mark(each.question) in seen:
                raise UsageError(f"`ResearchTasks` got the question {each.question[:80]!r} twice.")
            self.questions[each.name] = each
            seen.add(mark(each.question))
        if not 0 <= held_out <= 1:
            raise UsageError(f"`ResearchTasks(held_out={held_out!r})` is a share from 0 to 1.")
        self.held_out = held_out

    def sample(self, count: int, *, seed: int = 0, split: Split = "train") -> list[Task]:
        """`count` tasks of a split. Raises `UsageError` if it is empty."""
        names = sorted(
            name for name, each in self.questions.items() if self.split(each.question) == split
        )
        if not names:
            raise UsageError(
                f"None of the {len(self.questions)} questions is in the split {split!r}, as "
                f"`held_out` is {self.held_out}: `ResearchTasks(..., held_out=1)` puts all into "
                f"'test', 0 all into 'train'."
            )
        names.sort(key=lambda name: hash64("research", split, seed, name))
        return [self.questions[names[at % len(names)]].task() for at in range(count)]

    def split(self, question: str) -> Split:
        """The split of the question with these words."""
        share = int(mark(question)[:8], 16) / 16**8
        return "test" if share < self.held_out else "train"


def mark(question: str) -> str:
    """A hash of a question's words; how they are spaced does not matter. Hexadecimal SHA-256."""
    plain = " ".join(unicodedata.normalize("NFC", question).split())
    return hashlib.sha256(plain.encode("utf-8", "surrogatepass")).hexdigest()
