"""`Ask`: a typed question as an action.

The answer's type is the tree of questions: the fields of a pydantic model, and of the models in
it, are the sub-questions, their descriptions the instructions. A tree can be filled at once or
node by node, reviewed by a model or a person, and revised: then only the parts with comments are
asked for again, and all others keep their values.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, TypeVar, get_args, get_origin

from rolecraft.actions.action import Action
from rolecraft.errors import UnknownName, UsageError
from rolecraft.messages import Message
from rolecraft.models.base import Model
from rolecraft.models.questions import put_question

if TYPE_CHECKING:
    from rolecraft.models.by_field import Leaf

T = TypeVar("T")

Comments = Mapping[str, str]
"""What should change about a part of an answer, by its path: `chapters.0.title`, `*` for all."""

Reviewer = Callable[[Any], Comments | Awaitable[Comments | None] | None]
"""Looks at an answer. No comments, or None, accept it."""


class Ask(Action, Generic[T]):
    """A typed question. Its answer, a `T`, is the `instruct_content` of the message.

    `class Outline(Ask[Directory]): prompt = "..."`, or `Ask(Directory, "...")`. The model reads
    `prompt` and the last `recent` messages of the history (all unless set). `strategy` is `whole`,
    one answer for the tree, or `each`, one for each of its leaves. The answer is reviewed up to
    `reviews` times by `reviewer` (a model, the name of one, or a function; the model that answers
    unless set), and revised after each review that has comments.
    """

    returns: Any = None
    prompt: str = ""
    strategy: Literal["whole", "each"] = "whole"
    recent: int | None = None
    reviews: int = 0
    reviewer: Model | str | Reviewer | None = None

    _positional: ClassVar[tuple[str, ...]] = ("returns", "prompt")
    _asked: ClassVar[Any] = None

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        for base in cls.__dict__.get("__orig_bases__", ()):
            kind, asked = get_origin(base), get_args(base)
            if isinstance(kind, type) and issubclass(kind, Ask) and type(asked[0]) is not TypeVar:
                cls._asked = asked[0]
                if cls._positional == Ask._positional:
                    cls._positional = ("prompt",)

    def __init__(self, *args: Any, **fields: Any) -> None:
        super().__init__(*args, **fields)
        if self._kind is None:
            raise UsageError(
                f"`{type(self).__name__}` does not say what its answer is: write "
                f"`class {type(self).__name__}(Ask[Answer])`, or `Ask(Answer, '...')`."
            )

    async def run(self, history: Sequence[Message] = ()) -> T:
        """Fill, then review and revise as often as `reviews` says."""
        answer = await self.fill(history)
        for _ in range(self.reviews):
            comments = await self.review(answer, history)
            if not comments:
                break
            answer = await self.revise(answer, comments, history)
        return answer

    def question(self, history: Sequence[Message]) -> str:
        """What is asked: `prompt` and what has happened. Override it to say it otherwise."""
        if not self.prompt:
            raise UsageError(
                f"`{type(self).__name__}` asks nothing: give it a `prompt`, or a method "
                f"`question(self, history)`."
            )
        told = history if self.recent is None else history[max(0, len(history) - self.recent) :]
        lines = "\n".join(map(str, told))
        return f"{self.prompt}\n\nWhat has happened:\n{lines}" if lines else self.prompt

    def check(self, answer: T) -> None:
        """Override it to refuse answers: raise `ValueError`, and the model reads its text."""

    async def fill(self, history: Sequence[Message] = ()) -> T:
        """The answer. Raises `InvalidAnswer`."""
        from rolecraft.models.by_field import is_node

        question, kind = self.question(history), self._kind
        if self.strategy == "whole" or not is_node(kind):
            answer: T = await self._put(question, kind, self.check)
        else:
            answer = await self._fill_each(question, kind)
        return answer

    async def review(self, answer: T, history: Sequence[Message] = ()) -> dict[str, str]:
        """The reviewer's comments by path; none if the answer may stay.

        Raises `UnknownName` if a function comments on a part that the answer does not have.
        """
        from rolecraft.actions._parts import known_in, parts_of

        paths = parts_of(answer, self._kind)

        if self.reviewer is not None and not isinstance(self.reviewer, (Model, str)):
            said: Any = self.reviewer(answer)
            if inspect.isawaitable(said):
                said = await said
            return known_in(paths, said or {})
        prompt = (
            f"Review an answer. The question was:\n{self.question(history)}\n\n"
            f"The answer:\n{_as_json(answer, self._kind)}\n\n"
            f"Which parts must change, and why? Name each by its path, as in `{list(paths)[-1]}` "
            f"(`*` is the whole), with your comment. Name none if the answer is good as it is."
        )

        def check(comments: Comments) -> None:
            try:
                known_in(paths, comments)
            except UnknownName as error:
                raise ValueError(str(error)) from None

        comments: dict[str, str] = await self._put(
            prompt, dict[str, str], check, model=self.reviewer
        )
        return comments

    async def revise(self, answer: T, comments: Comments, history: Sequence[Message] = ()) -> T:
        """The answer with the commented parts made anew, each knowing its comment.

        Raises `InvalidAnswer`, and `UnknownName` for a comment on a part that does not exist.
        """
        from pydantic import Field, create_model

        from rolecraft.actions._parts import known_in, outermost, parts_of, with_changes

        paths = parts_of(answer, self._kind)
        if not known_in(paths, comments):
            return answer
        asked = outermost({path: paths[path] for path in comments})
        fields: dict[str, Any] = {
            f"part{number}": (part.kind, Field(alias=path))
            for number, (path, part) in enumerate(asked.items())
        }

        def revised(revision: Any) -> T:
            new = dict(zip(asked, (getattr(revision, name) for name in fields), strict=True))
            changed: T = with_changes(answer, {asked[path].steps: new[path] for path in new})
            return changed

        told = "\n".join(f"- {path}: {comment}" for path, comment in comments.items())
        prompt = (
            f"Revise an answer. The question was:\n{self.question(history)}\n\n"
            f"The answer:\n{_as_json(answer, self._kind)}\n\nThe comments:\n{told}\n\n"
            f"Write these parts anew, and only these: {', '.join(asked)}."
        )
        kind = create_model("Revision", **fields)
        revision = await self._put(prompt, kind, lambda given: self.check(revised(given)))
        return revised(revision)

    async def _fill_each(self, question: str, kind: Any) -> T:
        """Leaf by leaf, in one conversation."""
        from rolecraft.models.by_field import fill_fields
        from rolecraft.models.forms import reason_of

        session = self.open_session()
        before = f"{question}\n\nAnswer it part by part. The first is"

        async def ask(leaf: Leaf) -> Any:
            nonlocal before
            about = f": {leaf.field.description}" if leaf.field.description else ""
            problem = f"That is not valid: {leaf.problem}\n" if leaf.problem else ""
            prompt, before = f"{problem}{before} `{leaf.path}`{about}", "Now"
            return await put_question(session, prompt, returns=leaf.kind)

        answer: T = await fill_fields(kind, ask)
        try:
            self.check(answer)
        except ValueError as error:
            again = f"All of it is not valid: {reason_of(error)}. Write all of it anew."
            answer = await put_question(session, again, returns=kind, check=self.check)
        return answer

    @property
    def description(self) -> str:
        """`desc`, the first line of the subclass's docstring, or that of the prompt."""
        own = super().description if type(self) is not Ask else self.desc
        return own or self.prompt.strip().split("\n", 1)[0]

    @property
    def _kind(self) -> Any:
        return type(self)._asked if self.returns is None else self.returns

    async def _put(
        self,
        prompt: str,
        kind: Any,
        check: Callable[[Any], object] | None = None,
        *,
        model: Model | str | None = None,
    ) -> Any:
        session = self.open_session(model=model)
        return await put_question(session, prompt, returns=kind, check=check)


def _as_json(answer: Any, kind: Any) -> str:
    from rolecraft.models.forms import form_of

    return form_of(kind).adapter.dump_json(answer, indent=1, by_alias=True).decode()
