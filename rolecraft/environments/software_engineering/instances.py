"""What one software-engineering task is: code with a fault, words about it, tests that tell.

An `Instance` is a row of SWE-bench, SWE-Gym, SWE-bench-extra or SWE-smith, or one of your own. Its
code comes from a folder or archive of this machine (`source`), which needs no container, or from a
container `image`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path, PurePosixPath
from typing import Any, Literal, Self, get_args

from rolecraft.environments.task import Split, Task
from rolecraft.errors import UsageError
from rolecraft.models.hashing import hash64

Polarity = Literal["fix", "bug"]
"""What a patch does to the code that it applies to: mends it, or plants the bug (SWE-smith)."""
Runner = Literal["pytest", "junit", "ctest"]
"""Who reports the tests' results: pytest through our plug-in, else a file that the command writes.
"""


class BadInstance(UsageError):
    """A row that is no instance. Attributes: `row` (its number from 0, or None), `instance` (its
    id, empty if it has none), `field`, `problem`.
    """

    def __init__(
        self, field: str, problem: str, *, row: int | None = None, instance: str = ""
    ) -> None:
        self.row, self.instance, self.field, self.problem = row, instance, field, problem
        where = "An instance" if row is None else f"Row {row}"
        named = f" ({instance!r})" if instance else ""
        super().__init__(f"{where}{named}: `{field}` {problem}.")


class Unsupported(UsageError):
    """An instance cannot be run here: `needs` says what is missing. Attributes: `instance`,
    `needs`.
    """

    def __init__(self, instance: str, needs: str) -> None:
        self.instance, self.needs = instance, needs
        super().__init__(f"Instance {instance!r} is unsupported here: needs {needs}.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Instance:
    """One task. Frozen and checked: raises `BadInstance` for what cannot be."""

    id: str
    problem: str
    """What the agent is told: the text of the issue."""
    fail_to_pass: tuple[str, ...]
    """Ids of the tests that fail before the fix and must pass after it; at least one."""
    pass_to_pass: tuple[str, ...] = ()
    """Ids of the tests that pass before and must still pass."""
    patch: str = ""
    """The reference, as a unified diff; see `polarity`."""
    polarity: Polarity = "fix"
    """With "fix", `patch` applied to the base is the solution. With "bug", `patch` applied to the
    source makes the base, so its reverse is the solution."""
    test_patch: str = ""
    """What it changes is added after the agent's work, before the tests run."""
    hidden: tuple[str, ...] = ()
    """Files and folders of the source that the agent does not see; grading has them back."""
    repo: str = ""
    base_commit: str | None = None
    """The commit of `source` that is taken, if that is a git repository. None: its files as they
    are."""
    source: str | None = None
    """A folder, or a wheel or sdist (`.whl`, `.zip`, `.tar.gz`), of this machine."""
    image: str | None = None
    """The container image that has the code at `/testbed` and all that it needs."""
    environment: str | None = None
    """A venv, or a folder of installed packages, that is bound read-only. None: this process's own
    environment, or the image's."""
    python_path: tuple[str, ...] = (".",)
    """Folders of the source from which its packages are imported, such as `("src",)`."""
    runner: Runner = "pytest"
    test_command: tuple[str, ...] = ()
    """For pytest: further arguments, such as `("-q", "--timeout=60")`. For the other runners: the
    command, which writes `report`."""
    report: str = ""
    """The file with the results that `test_command` writes; not for pytest."""
    hints: str = ""
    version: str = ""
    dataset: str = ""
    meta: Mapping[str, Any] = field(default_factory=dict)
    """What else the row said; JSON values."""

    def __post_init__(self) -> None:
        def refuse(name: str, problem: str) -> BadInstance:
            return BadInstance(name, problem, instance=self.id if isinstance(self.id, str) else "")

        for name in ("id", "problem", "patch", "test_patch", "repo", "report", "hints", "version"):
            if not isinstance(getattr(self, name), str):
                raise refuse(name, f"is {getattr(self, name)!r}, not a text")
        for name in ("id", "problem"):
            if not getattr(self, name).strip():
                raise refuse(name, "is empty")
        for name in (
            *("fail_to_pass", "pass_to_pass", "hidden"),
            *("python_path", "test_command"),
        ):
            value = getattr(self, name)
            if isinstance(value, str) or not all(isinstance(each, str) and each for each in value):
                raise refuse(name, f"is {value!r}, not a list of texts")
            object.__setattr__(self, name, tuple(value))
        if not self.fail_to_pass:
            raise refuse("fail_to_pass", "names no test, so nothing could tell that it is solved")
        fixed = set(self.fail_to_pass)  # a test that is in both lists is one to mend
        kept = tuple(test for test in self.pass_to_pass if test not in fixed)
        object.__setattr__(self, "pass_to_pass", kept)
        for path in (*self.hidden, *self.python_path, *filter(None, (self.report,))):
            if PurePosixPath(path).is_absolute() or ".." in PurePosixPath(path).parts:
                raise refuse("hidden", f"has {path!r}: give paths relative to the source, no `..`")
        if self.polarity not in ("fix", "bug"):
            raise refuse("polarity", f"is {self.polarity!r}; known are 'fix' and 'bug'")
        if self.polarity == "bug" and not self.patch:
            raise refuse("patch", "is empty, and it is what plants the bug")
        if self.runner not in ("pytest", "junit", "ctest"):
            raise refuse("runner", f"is {self.runner!r}; known are 'pytest', 'junit', 'ctest'")
        if self.runner != "pytest" and not (self.test_command and self.report):
            raise refuse("test_command", f"and `report` are both needed with {self.runner!r}")
        if self.source is None and self.image is None:
            raise refuse("source", "is not given, and no `image` either: there is no code")

    def task(self) -> Task:
        """The task to solve it. Tests and reference are in its `data`, which no role sees."""
        return Task(self.id, self.problem, {"instance": asdict(self)})

    @classmethod
    def of(cls, task: Task) -> Self:
        """The instance of a task. Raises `UsageError` if it has none."""
        data = task.data.get("instance")
        if not isinstance(data, dict):
            raise UsageError(
                f"Task {task.id!r} has no instance: make it with `Instance(...).task()`."
            )
        known = {each.name for each in fields(cls)}
        if unknown := data.keys() - known:
            raise BadInstance(min(unknown), "is no field of an instance", instance=task.id)
        return cls(**data)


_OTHER: dict[Split, str] = {
    "test": "`rolecraft evaluate --split train` plays the others, and `rolecraft synth gather OUT "
    "--split-by function` parts made tasks, also those of one file.",
    "train": "`rolecraft synth gather OUT --held-out 0.2` leaves most of made tasks for training.",
}
"""What to do where a split is empty."""


class SoftwareTasks:
    """A `TaskSource` of instances. Which split one is in is told by its id alone, or by `splits`.

    `held_out` is the share of them in `test`; `splits` are by id, and those that it names count no
    more for that share. The order is drawn from the seed; it begins again when all were there.
    Raises `UsageError` for an id that comes twice, and for a split that there is not.
    """

    def __init__(
        self,
        instances: Iterable[Instance],
        *,
        held_out: float = 0.2,
        splits: Mapping[str, Split] = {},
    ) -> None:
        self.instances: dict[str, Instance] = {}
        for each in instances:
            if each.id in self.instances:
                raise UsageError(f"`SoftwareTasks` got two instances with the id {each.id!r}.")
            self.instances[each.id] = each
        if not 0 <= held_out <= 1:
            raise UsageError(f"`SoftwareTasks(held_out={held_out!r})` is a share from 0 to 1.")
        for name, split in splits.items():
            if split not in get_args(Split):
                raise UsageError(
                    f"`SoftwareTasks(splits=...)` has {split!r} for {name!r}; known are "
                    f"{', '.join(map(repr, get_args(Split)))}."
                )
        self.held_out = held_out
        self.splits = dict(splits)

    def sample(self, count: int, *, seed: int = 0, split: Split = "train") -> list[Task]:
        """`count` tasks of a split. Raises `UsageError` if it is empty."""
        ids = sorted(each for each in self.instances if self.split(each) == split)
        if not ids:
            why = (
                f"as `splits` says, or the column `split` of their rows. {_OTHER[split]}"
                if self.splits.keys() >= self.instances.keys()
                else f"as `held_out` is {self.held_out}: `SoftwareTasks(..., held_out=1)` puts all "
                f"into 'test', 0 all into 'train'."
            )
            raise UsageError(
                f"None of the {len(self.instances)} instances is in the split {split!r}, {why} "
                f"`rolecraft run --task ID` finds one in either."
            )
        ids.sort(key=lambda each: hash64("software", split, seed, each))
        return [self.instances[ids[index % len(ids)]].task() for index in range(count)]

    def __add__(self, other: SoftwareTasks) -> SoftwareTasks:
        """The tasks of both, such as of two projects, each in the split that it has now."""
        splits = {name: each.split(name) for each in (self, other) for name in each.instances}
        instances = [*self.instances.values(), *other.instances.values()]
        return SoftwareTasks(instances, splits=splits)

    def split(self, instance: str) -> Split:
        """The split of the instance with this id."""
        if instance in self.splits:
            return self.splits[instance]
        share = (hash64("held-out", instance) % 10_000) / 10_000
        return "test" if share < self.held_out else "train"


def folder_of(instance: Instance) -> Path:
    """The `source` of an instance. Raises `Unsupported` if it has none, or it is not there."""
    if instance.source is None:
        raise Unsupported(instance.id, f"image {instance.image}")
    path = Path(instance.source)
    if not path.exists():
        raise Unsupported(instance.id, f"its source `{instance.source}`, which is not there")
    return path
