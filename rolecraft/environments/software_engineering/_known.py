"""What gradings in one provider have found out about bases, so that later ones need not.

Nothing that a patch has run is in here: it comes from sandboxes in which there is the base alone.
"""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from rolecraft.environments.software_engineering._guarded_run import Ran
    from rolecraft.environments.software_engineering._program_ends import Ends
    from rolecraft.environments.software_engineering.named_tests import Collected

MOST_COMPILED = 1000
"""Test files whose compiled form is kept, of some 100 KiB each."""
MOST_RUNS = 200
"""Runs without a patch that are kept."""

Value = TypeVar("Value")
Compiled = Sequence[str]
"""The compiler's name and what it has made, see `Sources.ready`; empty if there is nothing."""


class Latest(Generic[Value]):
    """As many values as `most`: those that were asked for last."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._values: OrderedDict[Hashable, Value] = OrderedDict()
        self._lock = threading.Lock()  # there may be an event loop in more than one thread

    def get(self, key: Hashable) -> Value | None:
        with self._lock:
            if key in self._values:
                self._values.move_to_end(key)
            return self._values.get(key)

    def put(self, key: Hashable, value: Value) -> None:
        with self._lock:
            self._values[key] = value
            self._values.move_to_end(key)
            while len(self._values) > self._most:
                self._values.popitem(last=False)


@dataclass(slots=True)
class Known:
    """All that is known of the bases in one provider."""

    compiled: Latest[Compiled] = field(default_factory=lambda: Latest(MOST_COMPILED))
    """Test files as pytest has rewritten and compiled them, by `compiled_as`."""
    asked: Latest[bool] = field(default_factory=lambda: Latest(MOST_COMPILED))
    """The same keys of files that were needed before."""
    unpatched: Latest[Ran] = field(default_factory=lambda: Latest(MOST_RUNS))
    """How the tests go without any patch."""
    solvable: Latest[bool] = field(default_factory=lambda: Latest(MOST_RUNS))
    """Whether an instance's own solution passes."""
    ends: Latest[Ends] = field(default_factory=lambda: Latest(MOST_RUNS))
    """How the programs of the tests end with an instance's own solution."""
    collected: Latest[Collected] = field(default_factory=lambda: Latest(MOST_RUNS))
    """Which tests there are."""

    def to_compile(self, keys: Mapping[str, Hashable]) -> list[str]:
        """The paths that a run has needed before this one, and that nobody has compiled yet.

        They are the caller's to compile: nobody else is told of them.
        """
        again = [
            path
            for path, key in keys.items()
            if self.asked.get(key) and self.compiled.get(key) is None
        ]
        for key in keys.values():
            self.asked.put(key, True)
        for path in again:
            self.compiled.put(keys[path], ())
        return again

    def ready(self, keys: Mapping[str, Hashable]) -> dict[str, Compiled]:
        """What was compiled of these paths."""
        found = {path: self.compiled.get(key) for path, key in keys.items()}
        return {path: each for path, each in found.items() if each}


@lru_cache(maxsize=4096)
def digest(path: Path) -> str:
    """Of a file that nobody changes."""
    return hashlib.sha256(path.read_bytes()).hexdigest()
