"""The tutorial assistant: first a directory, then one generated action for each of its chapters.

What it will do cannot be listed before it has begun. So its action list starts with
`WriteDirectory` alone and is swapped for the chapters when these are known; the last action
composes them into one Markdown document. Every run starts afresh, with a directory of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self, get_args

from pydantic import AfterValidator, BaseModel, Field, model_validator

from rolecraft.actions import Action
from rolecraft.errors import UsageError
from rolecraft.messages import Message
from rolecraft.roles.ready import markdown
from rolecraft.roles.remedies.review import Comment, Reviewed, as_list
from rolecraft.roles.role import Role

if TYPE_CHECKING:
    from rolecraft.roles.memory import History

Language = Literal["English", "Chinese"]
CONTENTS: dict[Language, str] = {"English": "Contents", "Chinese": "目录"}
"""The heading of the table of contents."""
DOCUMENT = "tutorial.md"
"""Name of the artifact."""


Title = Annotated[str, AfterValidator(markdown.one_line), Field(min_length=1)]


class Chapter(BaseModel):
    """A chapter as it is planned."""

    title: Title
    sections: list[str] = []


class Directory(BaseModel):
    """The plan of a tutorial. No two chapters have one title."""

    title: Title
    chapters: list[Chapter] = Field(min_length=1)

    @model_validator(mode="after")
    def _titles_differ(self) -> Self:
        titles = [chapter.title for chapter in self.chapters]
        twice = sorted({title for title in titles if titles.count(title) > 1})
        if twice:
            raise ValueError(f"chapters have the same title: {twice}")
        return self

    def number(self, title: str) -> int:
        """The number of the chapter with this title, from 1."""
        return [chapter.title for chapter in self.chapters].index(title) + 1

    def __str__(self) -> str:
        return "\n".join(
            "\n".join([f"{number}. {chapter.title}", *(f"   - {s}" for s in chapter.sections)])
            for number, chapter in enumerate(self.chapters, 1)
        )


class WriteDirectory(Action):
    """Decide on the title and the chapters of a tutorial."""

    language: Language

    async def run(self, history: History) -> Message:
        directory = await self.ask(
            f"Plan a tutorial in {self.language}. This is what was asked for:\n"
            f"{history[-1].content}\n\nGive its title and its chapters, each with the sections it "
            f"needs. A beginner reads them in this order, and each builds on those before it. If "
            f"nothing was said of their number, three to eight will do.",
            returns=Directory,
        )
        return Message(f"{directory.title}\n{directory}", instruct_content=directory)


class WriteChapter(Action):
    """Write one chapter of the tutorial; with `comments`, write it again."""

    title: str
    sections: Sequence[str] = ()
    language: Language
    comments: Sequence[Comment] = ()

    async def run(self, history: History) -> Message:
        directory = _directory(history)
        return Message(
            await self.ask(self._question(directory, history)),
            metadata={"chapter": self.title},
        )

    def _question(self, directory: Directory, history: History) -> str:
        number = directory.number(self.title)
        parts = [
            f"The tutorial {directory.title!r} has these chapters:\n{directory}",
            f"Write chapter {number}, {self.title!r}, in {self.language}, in Markdown. Explain "
            f"each idea when it is first needed, and show it in an example that works as it "
            f"stands; code goes into fenced blocks that name their language. The chapter's own "
            f"heading is there already; its sections have headings of level 3. What belongs to "
            f"another chapter is left to it.",
        ]
        if self.comments:
            before = _chapters(history).get(self.title, "")
            parts.append(
                f"This is what you wrote:\n<chapter>\n{before}\n</chapter>\n\nReviewers say of "
                f"it:\n{as_list(self.comments)}\n\nWrite the whole chapter again, with every "
                f"comment met."
            )
        return "\n\n".join(parts)


class Compose(Action):
    """Put title, table of contents and chapters together into one Markdown document."""

    language: Language

    async def run(self, history: History) -> str:
        text = composed(_directory(history), _chapters(history), CONTENTS[self.language])
        self.record_artifact(DOCUMENT, text)
        return text


def composed(directory: Directory, chapters: dict[str, str], contents: str) -> str:
    """The document: every chapter has a number, and a link to it in the table of contents.

    Raises `UsageError` if a chapter of the directory is not among `chapters`.
    """
    missing = [c.title for c in directory.chapters if c.title not in chapters]
    if missing:
        raise UsageError(
            f"The chapters {missing!r} are not written yet: `WriteChapter` comes first."
        )
    headings = [f"{n}. {chapter.title}" for n, chapter in enumerate(directory.chapters, 1)]
    links = [
        f"{n}. {markdown.link(chapter.title, heading)}"
        for n, (chapter, heading) in enumerate(zip(directory.chapters, headings, strict=True), 1)
    ]
    parts = [f"# {directory.title}", f"## {contents}", "\n".join(links)]
    for chapter, heading in zip(directory.chapters, headings, strict=True):
        text = markdown.nested(chapters[chapter.title], below=2, title=chapter.title)
        parts += [f"## {heading}", text]
    return "\n\n".join(parts) + "\n"


def _directory(history: History) -> Directory:
    """The latest directory. Raises `UsageError` if there is none."""
    for message in reversed(history):
        if isinstance(message.instruct_content, Directory):
            return message.instruct_content
    raise UsageError("There is no directory yet: `WriteDirectory` comes first.")


def _chapters(history: History) -> dict[str, str]:
    """The latest text of each chapter, by title, since the latest directory."""
    found: dict[str, str] = {}
    for message in history:
        if isinstance(message.instruct_content, Directory):
            found.clear()
        elif message.metadata and "chapter" in message.metadata:
            found[message.metadata["chapter"]] = message.content
    return found


class TutorialAssistant(Role):
    """Writes a tutorial about what it is asked for: one Markdown document."""

    profile = "an author of tutorials"
    goal = "that a beginner who reads in order understands everything and can do it"
    language: Language = "English"

    def __init__(self, *args: Any, **fields: Any) -> None:
        super().__init__(*args, **fields)
        if self.language not in CONTENTS:
            raise UsageError(
                f"`language` of role {self.name!r} is {self.language!r}, expected one of "
                f"{list(get_args(Language))}."
            )
        self.set_actions([WriteDirectory(self.language)])

    async def react(self) -> Message | None:
        if not isinstance(self.rc.cursor.actions[0], WriteDirectory):  # an earlier run's chapters
            self.set_actions([WriteDirectory(self.language)])
        return await super().react()

    async def _act(self) -> Message | None:
        message = await super()._act()
        if message is not None and isinstance(message.instruct_content, Directory):
            self.set_actions(self.write(message.instruct_content.chapters))
        return message

    def write(
        self, chapters: Sequence[Chapter], comments: dict[str, list[Comment]] | None = None
    ) -> list[Action]:
        """The actions that write these chapters, and then compose the document."""
        about = comments or {}
        write: list[Action] = [
            WriteChapter(
                chapter.title,
                chapter.sections,
                language=self.language,
                comments=about.get(chapter.title, ()),
            )
            for chapter in chapters
        ]
        return [*write, Compose(self.language)]


class ReviewedTutorialAssistant(Reviewed, TutorialAssistant):
    """A tutorial assistant whose document is reviewed, and revised chapter by chapter."""

    name = "TutorialAssistant"
    submits = Compose

    def revise(self, comments: Sequence[Comment]) -> Sequence[Action]:
        """Write the chapters again that comments are about; for one about none of them, all."""
        chapters = _directory(self.rc.history).chapters
        about: dict[str, list[Comment]] = {}
        for comment in comments:
            meant = [
                chapter.title
                for chapter in chapters
                if chapter.title.casefold() in comment.about.casefold()
            ]
            for title in meant or [chapter.title for chapter in chapters]:
                about.setdefault(title, []).append(comment)
        return self.write([chapter for chapter in chapters if chapter.title in about], about)
