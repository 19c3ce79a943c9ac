"""The environment of `tutorial`: what can be measured of a document without a model."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from rolecraft.environments.task import Task, TaskEnvironment
from rolecraft.messages import ALL, Message
from rolecraft.roles import Role
from rolecraft.roles.ready import markdown
from rolecraft.roles.ready.tutorial_assistant import (
    CONTENTS,
    DOCUMENT,
    Compose,
    Directory,
)
from rolecraft.roles.remedies.review import Deliver, Reviewed
from rolecraft.trajectories.events import Event, Signal, StopReason

CONSTRAINTS = [
    {
        "name": "chapters",
        "text": "The tutorial has as many chapters as were asked for.",
        "mode": "task_spec",
    },
    {
        "name": "words",
        "text": "No chapter is shorter than was asked for.",
        "mode": "task_spec",
    },
]
"""The rules of the task that the environment watches."""
_CHINESE = re.compile(r"[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]")
_LATIN = re.compile(r"[A-Za-z\u00c0-\u024f]+")
_WORD = re.compile(rf"{_CHINESE.pattern}|[^\W\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]+")


class TutorialEnvironment(TaskEnvironment):
    """One tutorial to write. Signals, all of the document that went out, 0 where none did:

    - `tutorial.chapters_asked`, `.chapters_promised` (in the directory), `.chapters_written`
      (with a heading of their own and at least as many words as were asked for);
    - `tutorial.shortest_chapter`, in words; a Chinese character counts as one;
    - `tutorial.broken_links`: links within the document that lead to no heading of it;
    - `tutorial.in_language`: the share of its words, code left out, that are written in the asked
      language's script.

    That chapters are as many and as long as was asked for are rules of the task, which the
    environment also verifies as constraints.
    """

    def __init__(self, task: Task, roles: Iterable[Role] = (), **options: Any) -> None:
        super().__init__(task, roles, **options)
        # A document that nobody has accepted yet is none that the team could stop at.
        self.about.setdefault("goal", {"artifacts": [DOCUMENT]} | self._review())
        self.about.setdefault("constraints", CONSTRAINTS)

    def _review(self) -> dict[str, str]:
        reviewed = [
            role.name
            for role in self.roles.values()
            if isinstance(role, Reviewed) and role.submits is Compose
        ]
        return {"verify": f"{Compose.__name__} of {reviewed[0]}"} if reviewed else {}

    async def play(self) -> StopReason:
        reason = await super().play()
        return "finished" if reason == "idle" and self._document() is not None else reason

    async def grade(self) -> list[Signal]:
        document = self._document()
        text = document.content if document is not None else ""
        event = document.event if document is not None else None
        asked, least = self.task.data["chapters"], self.task.data["words"]
        lengths = [words(chapter) for chapter in chapters(text)]
        if document is not None:
            self._check("chapters", len(lengths) == asked, document)
            self._check("words", min(lengths, default=0) >= least, document)
        measured = {
            "chapters_asked": (asked, "chapters"),
            "chapters_promised": (self._promised(), "chapters"),
            "chapters_written": (sum(length >= least for length in lengths), "chapters"),
            "shortest_chapter": (min(lengths, default=0), "words"),
            "broken_links": (len(markdown.broken_links(text)), "links"),
            "in_language": (share_of_words(text, self.task.data["language"]), ""),
        }
        return [
            Signal(f"tutorial.{name}", float(value), unit=unit, step=event)
            for name, (value, unit) in measured.items()
        ]

    def _document(self) -> Message | None:
        """The latest document that went to everyone."""
        documents = [
            message
            for role in self.roles.values()
            for message in role.rc.memory.get_by_actions((Compose, Deliver))
            if message.sent_from == role.name and ALL in message.send_to
        ]
        return documents[-1] if documents else None

    def _promised(self) -> int:
        directories = [
            message.instruct_content
            for role in self.roles.values()
            for message in role.rc.history
            if isinstance(message.instruct_content, Directory)
        ]
        return len(directories[-1].chapters) if directories else 0

    def _check(self, name: str, passed: bool, document: Message) -> None:
        data = {
            "target": name,
            "passed": passed,
            "constraint": name,
            "mode": "task_spec",
            "role": document.sent_from,
        }
        self.record(Event("verify", role="environment", cause=document.event, data=data))


def chapters(text: str) -> list[str]:
    """The text of each chapter of a document: its sections of level 2, but for the contents."""
    found: list[str] = []
    in_chapter = False
    for section in markdown.sections(text):
        if section.level <= 2:
            in_chapter = section.level == 2 and section.title not in CONTENTS.values()
            if in_chapter:
                found.append(section.text)
        elif in_chapter:
            found[-1] += f"{section.title}\n{section.text}"
    return found


def words(text: str) -> int:
    """Words of a text without its code; a Chinese character counts as one."""
    return len(_WORD.findall(markdown.prose(text)))


def share_of_words(text: str, language: str) -> float:
    """How many of the words are in the language's script, 0 to 1; 0 for a text without words."""
    prose = markdown.prose(text)
    count = {"Chinese": len(_CHINESE.findall(prose)), "English": len(_LATIN.findall(prose))}
    return count[language] / (sum(count.values()) or 1)
