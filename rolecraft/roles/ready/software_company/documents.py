"""The documents that the company hands on, one type for each kind of work."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import BaseModel, Field, model_validator

from rolecraft.messages import Message
from rolecraft.roles.ready.software_company.as_text import as_text
from rolecraft.roles.ready.source_files import FilePath

Concern = Literal["design", "code", "test"]
"""Which work is at fault: the architect's, the engineer's, or the tests of the QA engineer."""


class Document(BaseModel):
    """What an action hands on: to colleagues as a typed object, to people as text."""

    def __str__(self) -> str:
        return as_text(self)

    def message(self) -> Message:
        """The message that hands this document on to whoever listens to its kind of work."""
        return Message(str(self), instruct_content=self)


class Requirements(Document):
    """What is to be made and how one can tell that it is right (PRD)."""

    product: str
    user_stories: list[str] = []
    requirements: list[str] = Field(min_length=1)
    """Each can be checked, and together they leave nothing of the customer's wish out."""
    out_of_scope: list[str] = []


class PlannedFile(BaseModel):
    """A file of the design."""

    path: FilePath
    purpose: str
    interface: str = ""
    """Functions and classes that other files may use, with their types."""


class Design(Document):
    """Which files there are and how they work together."""

    approach: str
    entry_point: FilePath
    files: list[PlannedFile] = Field(min_length=1)

    @model_validator(mode="after")
    def _whole(self) -> Self:
        paths = [file.path for file in self.files]
        if len(set(paths)) < len(paths):
            raise ValueError("a file is planned twice")
        if self.entry_point not in paths:
            raise ValueError(f"the entry point {self.entry_point!r} is none of the files {paths}")
        return self


class FileTask(BaseModel):
    """The job of writing one file."""

    path: FilePath
    instruction: str


class TaskList(Document):
    """The files in the order in which they are to be written: what is used comes first."""

    tasks: list[FileTask] = Field(min_length=1)


class Finding(BaseModel):
    """One thing that is wrong, where, and what must change."""

    concerns: Concern
    path: FilePath
    problem: str


class CodeSummary(Document):
    """The engineer's own look at all files together before they are handed on."""

    summary: str
    gaps: list[FileTask] = []
    """What is missing or does not fit together, by file."""


class TestReport(Document):
    """What came of running the tests: measured, not judged."""

    __test__ = False  # it is no test class, whatever pytest makes of its name

    passed: int
    failed: int
    """Tests that failed or ended in an error; 1 if the tests did not come to their end."""
    output: str

    def __str__(self) -> str:
        return f"{self.passed} passed, {self.failed} failed\n{self.output}".rstrip()

    @property
    def ok(self) -> bool:
        return self.failed == 0 and self.passed > 0


class Findings(Document):
    """Something is wrong with what was handed over."""

    findings: list[Finding] = []

    def __str__(self) -> str:
        return "\n".join(f"{f.concerns}, {f.path}: {f.problem}" for f in self.findings)

    @property
    def concerns(self) -> Concern | None:
        """Whose turn it is: a wrong design makes new code, and new code needs its tests again."""
        concerned = {finding.concerns for finding in self.findings}
        return next((c for c in ("design", "code", "test") if c in concerned), None)


class BugReport(Findings):
    """Why tests fail."""

    findings: list[Finding] = Field(min_length=1)


class Verdict(Findings):
    """Whether the product may go out as it is."""

    approved: bool
    reason: str

    def __str__(self) -> str:
        verdict = "Approved" if self.approved else "Not approved"
        return f"{verdict}: {self.reason}\n{super().__str__()}".rstrip()

    @model_validator(mode="after")
    def _plain(self) -> Self:
        if self.approved == bool(self.findings):
            raise ValueError("approve and name no findings, or name findings and do not approve")
        return self
