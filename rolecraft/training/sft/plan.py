"""Data that was looked at, file by file, before any model is loaded.

Invariant: every row of a plan's files is a sample, or is left out for a reason that is counted, or
is a problem with its file and row. Reading a plan again gives the same samples in the same order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from rolecraft.environments.row_files import read_rows
from rolecraft.errors import UnknownName, UsageError
from rolecraft.failure_taxonomy.modes import MODES
from rolecraft.training.sft.layouts import LAYOUTS, Layout
from rolecraft.training.sft.layouts import trajectories as journals
from rolecraft.training.sft.samples import BROKEN_CALL, AnySample, BadRow, Facts, Sample, TextSample
from rolecraft.training.sft.selection import ANY_FAILURE, Selection
from rolecraft.training.sft.sources import Fetch, Source, not_read, sources_of

FORMAT = 1
"""Of what is cached: raised whenever the same data gives other samples or tokens."""
SHOWN = 10
"""So many problems are shown in an error; all of them are in its `problems`, up to `KEPT`."""
KEPT = 1000
"""So many problems are kept of a file; the rest is counted."""


_OF_NO_LAYOUT = "is of no known layout"


class Problem(NamedTuple):
    """A row that is no sample."""

    file: str
    place: str
    """Such as "line 3"; empty for the file as a whole."""
    text: str

    def __str__(self) -> str:
        return f"`{self.file}`: {self.place + ' ' if self.place else ''}{self.text}"


class BadData(UsageError):
    """Rows of training data that are no samples. `problems` has each, `count` says how many."""

    has_lines = True

    def __init__(self, problems: Sequence[Problem], count: int) -> None:
        self.problems, self.count = list(problems), count
        shown = "\n".join(f"  {problem}" for problem in self.problems[:SHOWN])
        more = f"\n  … and {count - SHOWN} more" if count > SHOWN else ""
        if any(_OF_NO_LAYOUT in str(problem) for problem in self.problems):
            more += f"\nKnown layouts: {_known_layouts()}."
        super().__init__(
            f"{count} {'row' if count == 1 else 'rows'} of the training data cannot be used. Mend "
            f"them, or leave them out with `--skip-broken`.\n{shown}{more}"
        )


class LeftOut(NamedTuple):
    """A sample that is not learned from, and why."""

    reason: str


@dataclass(slots=True)
class CheckedFile:
    """What is in a file."""

    path: str
    digest: str
    """Of all its bytes."""
    rows: int = 0
    samples: int = 0
    layouts: dict[str, int] = field(default_factory=dict)
    """Rows of each layout; the first one is the file's."""
    left_out: dict[str, int] = field(default_factory=dict)
    """Samples that are not taken, by reason."""
    roles: dict[str, int] = field(default_factory=dict)
    """Samples of each role, where the data names roles; also those that are not taken."""
    failures: dict[str, int] = field(default_factory=dict)
    """Samples in whose runs each mode of failure was found."""
    texts: int = 0
    """Samples that need no chat template."""
    broken: int = 0
    """Rows with problems."""
    problems: list[Problem] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        return asdict(self) | {"problems": [tuple(each) for each in self.problems]}

    @classmethod
    def from_dict(cls, known: Mapping[str, Any]) -> CheckedFile:
        """Raises `TypeError` for what is none."""
        return cls(**{**known, "problems": [Problem(*each) for each in known["problems"]]})


@dataclass(frozen=True, slots=True)
class DataPlan:
    """Files that were checked, and which of their samples are taken. Made by `check_data`."""

    sources: Sequence[Source]
    files: Sequence[CheckedFile]
    selection: Selection
    not_read: Mapping[Path, Sequence[Path]] = field(default_factory=dict)
    """Files of rows in a folder whose journals are read, by folder."""

    @property
    def samples(self) -> int:
        """How many are taken."""
        return sum(file.samples for file in self.files)

    @property
    def roles(self) -> list[str]:
        """The roles that the data names, in order of their first samples."""
        return list(dict.fromkeys(role for file in self.files for role in file.roles))

    @property
    def needs_template(self) -> bool:
        """Whether there are conversations, which a chat template must write."""
        return any(file.texts < file.samples for file in self.files)

    def key(self) -> list[Any]:
        """What decides which samples there are, for a fingerprint."""
        return [FORMAT, [file.digest for file in self.files], self.selection.to_dict()]

    def read(self, at: int) -> Iterator[AnySample | LeftOut | Problem]:
        """What is in file number `at`, row by row."""
        for _, found in self.read_layouts(at):
            yield found

    def read_layouts(self, at: int) -> Iterator[tuple[str, AnySample | LeftOut | Problem]]:
        """The same, each with its layout; empty for a row of none."""
        for row, found in _read(self.sources[at], self.selection):
            yield row.layout, found


def check_data(
    data: Sequence[str | Path] | str | Path,
    *,
    selection: Selection | None = None,
    split: str | None = None,
    skip_broken: bool = False,
    fetch: Fetch | None = None,
    cache: Path | None = None,
) -> DataPlan:
    """Look at every row of `data`: which layout it has, and what is wrong with it.

    `data` are files, folders, stores of trajectories, and names on the hub, which `fetch` brings to
    this machine. `split` chooses among those of a folder. With `cache`, a folder, files that were
    looked at before and have the same bytes are not read again.

    Raises `UsageError` where there is no data or nothing is taken of it, `UnknownName` for a mode
    of failure that nobody knows, and `BadData` for rows that are no samples, unless `skip_broken`:
    then they are left out, and counted.
    """
    from rolecraft.training.sft import cache as cached

    selection = selection or Selection()
    listed = [data] if isinstance(data, (str, Path)) else list(data)
    sources = sources_of(listed, split=split, fetch=fetch)
    files = []
    for source in sources:
        digest = source.digest()
        key = [FORMAT, "check", str(source.path), digest, selection.to_dict()]
        known = cached.read_note(cache, key)
        file = None if known is None else CheckedFile.from_dict(known)
        if file is None:
            file = _checked(source, selection, digest)
            cached.write_note(cache, key, file.to_dict())
        files.append(file)
    broken = sum(file.broken for file in files)
    if broken and not skip_broken:
        raise BadData([problem for file in files for problem in file.problems], broken)
    known_modes = {*MODES, ANY_FAILURE, *(mode for file in files for mode in file.failures)}
    for mode in selection.without_failures:
        if mode not in known_modes:  # else a slip of the pen would leave nothing out
            raise UnknownName("Failure mode", mode, known_modes)
    plan = DataPlan(sources, files, selection, not_read(listed, sources))
    if not plan.samples:
        raise UsageError(f"There is nothing to train on: {_why_none(files)}.")
    return plan


def _checked(source: Source, selection: Selection, digest: str) -> CheckedFile:
    file = CheckedFile(str(source.path), digest)
    layouts: Counter[str] = Counter()
    left_out: Counter[str] = Counter()
    roles: Counter[str] = Counter()
    failures: Counter[str] = Counter()
    for row, found in _read(source, selection):
        file.rows = max(file.rows, row.number + 1)
        if row.layout:
            layouts[row.layout] += 1
        if row.facts.role:
            roles[row.facts.role] += 1
        failures.update(row.facts.failures)
        match found:
            case Problem():
                file.broken += 1
                if len(file.problems) < KEPT:
                    file.problems.append(found)
            case LeftOut():
                left_out[found.reason] += 1
            case _:
                file.samples += 1
                file.texts += isinstance(found, TextSample)
    file.layouts, file.left_out = dict(layouts), dict(left_out)
    file.roles, file.failures = dict(roles), dict(failures)
    return file


class _Of(NamedTuple):
    """Where a sample is from."""

    number: int
    layout: str = ""
    facts: Facts = Facts()


def _read(
    source: Source, selection: Selection
) -> Iterator[tuple[_Of, AnySample | LeftOut | Problem]]:
    if source.kind == "journal":
        try:
            for found in journals.read_journal(source.path, source.reward):
                yield _Of(0, journals.NAME, found.facts), _taken(found, selection)
        except BadRow as error:
            yield _Of(0), Problem(str(source.path), "", str(error))
        return
    last: Layout | None = None
    for row in read_rows(source.path, split=source.split):
        if row.problem:
            yield _Of(row.number), Problem(str(source.path), row.place, row.problem)
            continue
        layout = last if last is not None and last.matches(row.fields) else layout_of(row.fields)
        if layout is None:
            yield _Of(row.number), Problem(str(source.path), row.place, _unknown(row.fields))
            continue
        last = layout
        try:
            sample = layout.read(row.fields)
        except BadRow as error:
            yield _Of(row.number, layout.name), Problem(str(source.path), row.place, str(error))
            continue
        yield _Of(row.number, layout.name, sample.facts), _taken(sample, selection)


def layout_of(fields: Mapping[str, Any]) -> Layout | None:
    """The layout of a row; None if it has none that is known."""
    return next((layout for layout in LAYOUTS if layout.matches(fields)), None)


def _taken(sample: AnySample, selection: Selection) -> AnySample | LeftOut:
    if refused := selection.refusal(sample.facts):
        return LeftOut(refused)
    return LeftOut(reason) if (reason := _nothing_in(sample)) else sample


def _nothing_in(sample: AnySample) -> str:
    """Why nothing can be learned from a sample whatever the tokenizer; empty if something can."""
    if isinstance(sample, TextSample):
        return "" if sample.completion.strip() else "empty"
    if not isinstance(sample, Sample):
        return "" if any(any(each.trained) for each in sample.sequences) else "nothing to train"
    said = [turn for turn in sample.turns if turn.content.strip() or turn.tool_calls]
    if not said:
        return "empty"
    if any("raw" in call for turn in sample.turns for call in turn.tool_calls):
        return BROKEN_CALL
    if said[0].role in ("assistant", "tool"):
        return "begins with an answer"
    trained = any(turn.role == "assistant" and turn.sampled for turn in said)
    return "" if trained else "nothing to train"


def _unknown(fields: Mapping[str, Any]) -> str:
    there = ", ".join(f"`{key}`" for key in fields) or "no column"
    return f"{_OF_NO_LAYOUT}: it has {there}"


def _known_layouts() -> str:
    return "; ".join(f"{layout.name}: {layout.looks_like}" for layout in LAYOUTS)


def _why_none(files: Sequence[CheckedFile]) -> str:
    reasons: Counter[str] = Counter()
    for file in files:
        reasons.update(file.left_out)
        if file.broken:
            reasons["broken"] += file.broken
    if not reasons:
        return f"there is no row in {', '.join(f'`{file.path}`' for file in files[:3])}"
    listed = ", ".join(f"{count} ({reason})" for reason, count in reasons.most_common())
    return f"every sample is left out: {listed}"
