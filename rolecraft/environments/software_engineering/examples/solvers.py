"""Test doubles that solve instances, or do not: they know an instance by the text of its issue.

    model = reference_solver(examples().values())

Each works through the tools of CodeAct, one call an answer, as a model would: what it does is
recorded, and goes through the same sandbox and the same grading.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from rolecraft.environments.software_engineering.instances import Polarity
from rolecraft.errors import UsageError
from rolecraft.messages import ToolCall
from rolecraft.models.base import Completion
from rolecraft.models.doubles import FunctionModel, ModelCall

REFERENCE, PATCHING, NULL = STAND_INS = ("reference-solver", "patching-solver", "null-solver")
"""What the solvers below are called in records: two know the solutions, one does nothing."""
Step = tuple[str, dict[str, Any]]
"""A tool's name and its arguments."""


class Issue(Protocol):
    """What a solver knows of an instance: an `Instance` is one, and an `Example`."""

    @property
    def id(self) -> str: ...
    @property
    def problem(self) -> str: ...
    @property
    def patch(self) -> str: ...
    @property
    def polarity(self) -> Polarity: ...


IssueT = TypeVar("IssueT", bound=Issue)


@dataclass(frozen=True, slots=True)
class Edit:
    """One hunk of a patch: at a line of a file, a text that goes and one that comes."""

    path: str
    line: int
    old: str
    new: str


def solver(
    issues: Iterable[IssueT], plan: Callable[[IssueT], Sequence[Step]], *, name: str
) -> FunctionModel:
    """A model that takes the steps of a plan, and then calls `finish`.

    Raises `UsageError` when it is asked about something else than one of the issues.
    """
    known = list(issues)

    def answer(call: ModelCall) -> Completion:
        said = "\n".join(message.content for message in call.messages)
        issue = next((each for each in known if each.problem in said), None)
        if issue is None:
            raise UsageError(f"The model {name!r} does not know this issue: {said[:200]!r}.")
        done = sum(message.role == "tool" for message in call.messages)
        tool, arguments = [*plan(issue), ("finish", {"message": "I am done."})][done]
        asked = ToolCall(tool, dict(arguments), id=f"call-{done}")
        return Completion(text="", tool_calls=[asked], finish_reason="tool_calls")

    return FunctionModel(answer, name=name, keep_calls=False)


def reference_solver(issues: Iterable[Issue]) -> FunctionModel:
    """Looks at the places, makes the edits of the reference, runs the tests that are there."""
    return solver(issues, reference_plan, name=REFERENCE)


def reference_plan(issue: Issue) -> list[Step]:
    """The steps of `reference_solver`."""
    found = list(edits(issue.patch, reverse=issue.polarity == "bug"))
    shown = [(edit.line, edit.line + edit.old.count("\n")) for edit in found]
    return [
        *(
            ("str_replace_editor", {"command": "view", "path": edit.path, "view_range": [*lines]})
            for edit, lines in zip(found, shown, strict=True)
        ),
        *(
            (
                "str_replace_editor",
                {
                    "command": "str_replace",
                    "path": edit.path,
                    "old_str": edit.old,
                    "new_str": edit.new,
                },
            )
            for edit in found
        ),
        ("run_tests", {}),
    ]


def patching_solver(issues: Iterable[Issue]) -> FunctionModel:
    """Looks at the places, and has git apply the reference: of issues in the same words, that
    which fits. For tasks that were made by the hundred.
    """
    same: dict[str, list[Issue]] = {}
    for issue in issues:
        same.setdefault(issue.problem, []).append(issue)
    groups = [each for _, each in sorted(same.items(), key=lambda pair: -len(pair[0]))]
    firsts = {group[0].id: group for group in groups}
    return solver(
        (group[0] for group in groups),  # the longest first: one may begin with another's words
        lambda issue: patching_plan(firsts[issue.id]),
        name=PATCHING,
    )


_END = "END-OF-PATCH"


def patching_plan(issues: Sequence[Issue]) -> list[Step]:
    """The steps of `patching_solver` for issues of which one is meant; it looks at the places where
    it is clear which. The sandbox needs git.
    """
    shown: list[Step] = []
    tried: list[str] = []
    for issue in issues:
        back = issue.polarity == "bug"
        for edit in edits(issue.patch, reverse=back) if len(issues) == 1 else ():
            lines = [max(1, edit.line), max(1, edit.line) + edit.old.count("\n")]
            view = {"command": "view", "path": edit.path, "view_range": lines}
            shown.append(("str_replace_editor", view))
        text = issue.patch if issue.patch.endswith("\n") else issue.patch + "\n"
        word = "git apply -R -" if back else "git apply -"
        tried.append(f"{word} <<'{_END}'\n{text}{_END}\n")
    command = tried[0]
    for more in tried[1:]:
        command = f"{command}if [ $? -ne 0 ]; then\n{more}fi\n"
    return [*shown, ("execute_bash", {"command": command})]


def null_solver(issues: Iterable[Issue]) -> FunctionModel:
    """Says that it is done, and has done nothing."""
    return solver(issues, lambda _: [], name=NULL)


def bash_solver(
    issues: Iterable[IssueT], script: Callable[[IssueT], str], *, name: str
) -> FunctionModel:
    """Runs one script of bash in the repository."""
    return solver(issues, lambda issue: [("execute_bash", {"command": script(issue)})], name=name)


@dataclass(slots=True)
class _Reading:
    """The hunk that is being read."""

    path: str
    line: int
    old: list[str] = field(default_factory=list)
    new: list[str] = field(default_factory=list)

    def edit(self) -> Edit:
        return Edit(self.path, self.line, "".join(self.old), "".join(self.new))


_HUNK = re.compile(r"@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@")


def edits(patch: str, *, reverse: bool = False) -> Iterator[Edit]:
    """The hunks of a unified diff that changes text files, without new and deleted ones."""
    path, reading = "", None
    for line in patch.splitlines(keepends=True):
        if line.startswith(("--- ", "diff ")):
            if reading is not None:
                yield reading.edit()
            reading = None
        elif line.startswith("+++ b/"):
            path = line.removeprefix("+++ b/").rstrip("\n")
        elif found := _HUNK.match(line):
            if reading is not None:
                yield reading.edit()
            reading = _Reading(path, int(found[2 if reverse else 1]))
        elif reading is not None and line[:1] in (" ", "-", "+"):
            if line[0] in (" ", "+" if reverse else "-"):
                reading.old.append(line[1:])
            if line[0] in (" ", "-" if reverse else "+"):
                reading.new.append(line[1:])
    if reading is not None:
        yield reading.edit()
