"""Peer review: no work goes out before its reviewers have read it, and no comment is lost.

    author ── work ──► reviewers ── reviews ──► author ── all accept, or the bound ──► everyone
                                                  └── else revise(comments), and hand in again

It answers three failure modes: checks that are left out or look at the wrong thing (a review says
what was checked, and is recorded as a check), and colleagues whose input is ignored (comments
become the author's action list). `revisions` bounds it; what is then delivered says that it was
not accepted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

from pydantic import BaseModel, Field, model_validator

from rolecraft.actions import Action
from rolecraft.errors import UsageError
from rolecraft.messages import MESSAGE_TO_ALL, Message, addresses_of
from rolecraft.roles.role import Role

if TYPE_CHECKING:
    from rolecraft.roles.memory import History


class Comment(BaseModel):
    """One thing that must change, and the part of the work it is about."""

    about: str = ""
    text: str

    def __str__(self) -> str:
        return f"{self.about}: {self.text}" if self.about else self.text


class Review(BaseModel):
    """What a reviewer says. Work that is not accepted has at least one comment."""

    checked: list[str] = Field(min_length=1)
    """What was looked at, and how it came out."""
    comments: list[Comment] = []
    accepted: bool

    @model_validator(mode="after")
    def _is_plain(self) -> Self:
        if self.accepted == bool(self.comments):
            raise ValueError(
                "accept the work and give no comments, or give comments and do not accept it"
            )
        return self

    def __str__(self) -> str:
        verdict = "Accepted." if self.accepted else "Not accepted."
        checked = [f"Checked: {line}" for line in self.checked]
        return "\n".join([verdict, *checked, *(f"To change: {line}" for line in self.comments)])


class ReviewWork(Action):
    """Read a colleague's work critically: accept it, or say what must change."""

    criteria: str = "it does what was asked, it is true, nothing is missing"

    async def run(self) -> None:
        for work in self.role.rc.news:
            review = await self.ask(self._question(work), returns=Review)
            kind = work.cause_by.rpartition(".")[2]
            self.record_check(
                f"{kind} of {work.sent_from}", passed=review.accepted, said=str(review)
            )
            self.role.publish_message(
                Message(
                    str(review),
                    send_to=work.sent_from,
                    instruct_content=review,
                    metadata={"of": work.id},
                )
            )

    def _question(self, work: Message) -> str:
        asked = (work.metadata or {}).get("task")
        before = [
            said.content
            for said in self.role.rc.memory.get_by_action(ReviewWork)
            if work.sent_from in said.send_to
        ]
        return "\n\n".join(
            [
                *([f"{work.sent_from} was asked:\n{asked}"] if asked else []),
                f"{work.sent_from} hands in:\n<work>\n{work.content}\n</work>",
                *([f"What you said of the version before:\n{before[-1]}"] if before else []),
                f"Review it. It is good if: {self.criteria}. Check each of these and write down "
                f"what you looked at and what you found. Then accept it, or give one comment for "
                f"each thing that must change, with the part that it is about. Whatever could as "
                f"well stay needs no comment.",
            ]
        )


class Reviewer(Role):
    """Reviews every work that is sent to it, and tells the author."""

    profile = "a critical and fair reviewer"
    goal = "that nothing wrong or incomplete goes out"
    actions = [ReviewWork]
    watch = ()


class ReviseWork(Action):
    """Write the work again so that every comment of the reviewers is met."""

    comments: Sequence[Comment] = ()

    async def run(self, history: History) -> str:
        author: Reviewed = self.role
        work = author.work
        return await self.ask(
            f"You were asked:\n{author.task.content}\n\nYou wrote:\n<work>\n{work.content}\n</work>"
            f"\n\nYour reviewers say:\n{as_list(self.comments)}\n\nWrite the whole work again, "
            f"with every comment met and the rest as it was. Answer with the work only."
        )


class Deliver(Action):
    """Hand the reviewed work on to everyone."""

    accepted: bool
    revisions: int

    async def run(self) -> Message:
        about = {"accepted": self.accepted, "revisions": self.revisions}
        work: Message = self.role.work
        return replace(
            work,
            id="",
            event=None,
            cause_by=Deliver,
            send_to=MESSAGE_TO_ALL,
            metadata={**(work.metadata or {}), **about},
        )


class Reviewed(Role):
    """An author whose work is read by others before it goes out.

    The messages of the action `submits` are the work. They go to the roles named in `reviewers`
    alone. When all of these have answered, the author delivers (`Deliver`, for everyone) or takes
    up the actions that `revise` returns, the last of which must submit again. After `revisions`
    of these the work is delivered as it is, with `metadata["accepted"]` False. A message that is
    no review is a new task, and begins afresh.
    """

    submits: ClassVar[type[Action]]
    reviewers: Sequence[str] = ("Reviewer",)
    revisions: int = 3

    def __init__(self, *args: Any, **fields: Any) -> None:
        super().__init__(*args, **fields)
        if not hasattr(self, "submits"):
            raise UsageError(
                f"`{type(self).__name__}` does not say which action's messages are the work: write "
                f"`submits = ...` in its class."
            )
        if isinstance(self.reviewers, str) or not self.reviewers:
            raise UsageError(
                f"`reviewers` of role {self.name!r} is {self.reviewers!r}: name at least one role, "
                f"`reviewers=['Reviewer']`."
            )
        self._plan = self.rc.cursor.actions
        self._reacts_to_reviews = False
        self._task: Message | None = None

    @property
    def task(self) -> Message:
        """The message that asked for the work. Raises `UsageError` before the first."""
        if self._task is None:
            raise UsageError(f"Role {self.name!r} has no task yet.")
        return self._task

    @property
    def work(self) -> Message:
        """The work in its latest form. Raises `UsageError` before there is one."""
        if not self._works:
            raise UsageError(f"Role {self.name!r} has done no `{self.submits.__name__}` yet.")
        return self._works[-1]

    def revise(self, comments: Sequence[Comment]) -> Sequence[Action]:
        """The actions that meet these comments. Override it where the work has parts."""
        return [ReviseWork(comments=comments)]

    async def react(self) -> Message | None:
        tasks = [m for m in self.rc.news if not isinstance(m.instruct_content, Review)]
        if tasks:
            self._task = tasks[-1]
            if self._reacts_to_reviews:
                self.set_actions(self._plan)
                self._reacts_to_reviews = False
            return await super().react()
        if not self._works or not self._reviews.keys() >= set(self.reviewers):
            return None  # some are still reading
        self.set_actions(self._next_actions())
        self._reacts_to_reviews = True
        return await self._react()

    def _next_actions(self) -> Sequence[Action]:
        reviews = [self._reviews[name] for name in self.reviewers]
        revised = len(self._works) - 1
        accepted = all(review.accepted for review in reviews)
        if accepted or revised >= self.revisions:
            return [Deliver(accepted=accepted, revisions=revised)]
        return self.revise([comment for review in reviews for comment in review.comments])

    # What follows from memory needs no counting, and stays right when a turn is taken again.

    @property
    def _works(self) -> list[Message]:
        """The versions of the work for this task."""
        return [
            message
            for message in self._since(self.task)
            if message.cause_by in self._kinds and message.sent_from == self.name
        ]

    @property
    def _kinds(self) -> frozenset[str]:
        """The addresses of the actions that make the work; a wrapped one has that of its own."""
        return addresses_of((self.submits, ReviseWork))

    @property
    def _reviews(self) -> dict[str, Review]:
        """The reviews of the latest version, by reviewer; those of earlier ones come too late."""
        work = self.work
        return {
            message.sent_from: message.instruct_content
            for message in self._since(work)
            if isinstance(message.instruct_content, Review)
            and (message.metadata or {}).get("of", work.id) == work.id
        }

    def _since(self, start: Message) -> list[Message]:
        history = self.rc.history
        at = next((at for at, message in enumerate(history) if message.id == start.id), 0)
        return history[at:]

    async def _act(self) -> Message | None:
        message = await super()._act()
        todo = self.rc.todo
        if message is not None and todo is not None and todo.address in self._kinds:
            message.send_to = self.reviewers
            message.metadata = {**(message.metadata or {}), "task": self.task.content}
        return message


def as_list(comments: Sequence[Comment]) -> str:
    """Comments as lines of a prompt."""
    return "\n".join(f"- {comment}" for comment in comments)
