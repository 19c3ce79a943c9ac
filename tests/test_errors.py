"""The exceptions of Rolecraft, wherever they are defined."""

from __future__ import annotations

import contextlib
import copy
import importlib
import inspect
import pickle
import re
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from rolecraft.errors import MissingExtra, RolecraftError

PACKAGE = Path(__file__).parents[1] / "rolecraft"
SAMPLES = {
    "str": "x",
    "int": 3,
    "float": 1.5,
    "bool": True,
    "Path": Path("x"),
    "Iterable[str]": ["a", "b"],
    "Mapping[str, Any]": {"input_ids": SimpleNamespace(shape=(2, 3))},  # of a batch
    "Ended": SimpleNamespace(exit_code=1),  # of a run in the background
}
"""A value for each type that a constructor of ours takes; text for any other."""


def import_all_that_define_errors() -> None:
    """The modules with a class that derives from one of `rolecraft.errors`."""
    known = [kind.__name__ for kind in subclasses(RolecraftError)]
    definition = re.compile(rf"^class \w+\([^)]*\b({'|'.join(known)})\b", re.M)
    for path in sorted(PACKAGE.rglob("*.py")):
        if definition.search(path.read_text("utf-8")):
            module = path.relative_to(PACKAGE.parent).with_suffix("").parts
            with contextlib.suppress(MissingExtra):  # tested where the extra is installed
                importlib.import_module(".".join(module))


def subclasses(kind: type[RolecraftError]) -> Iterator[type[RolecraftError]]:
    yield kind
    for below in kind.__subclasses__():
        yield from subclasses(below)


def made(kind: type[RolecraftError]) -> RolecraftError:
    """One error of a class, with a value for every parameter."""
    if kind.__init__ is Exception.__init__ or "__init__" not in vars_of(kind):
        return kind("what went wrong")
    args, fields = [], {}
    for parameter in list(inspect.signature(kind).parameters.values()):
        value: Any = SAMPLES.get(str(parameter.annotation), "x")
        if parameter.kind is parameter.KEYWORD_ONLY:
            fields[parameter.name] = value
        elif parameter.kind is parameter.POSITIONAL_OR_KEYWORD:
            args.append(value)
    return kind(*args, **fields)


def vars_of(kind: type[RolecraftError]) -> set[str]:
    """What Rolecraft's own classes among its bases define."""
    return {
        name for base in kind.__mro__ if issubclass(base, RolecraftError) for name in vars(base)
    }


def test_every_error_survives_pickling_with_its_text_attributes_and_notes() -> None:
    """Worker processes raise them; a class whose constructor takes keywords could not be read."""
    import_all_that_define_errors()
    ours = {kind for kind in subclasses(RolecraftError) if kind.__module__.startswith("rolecraft.")}
    assert len(ours) > 20
    for kind in ours:
        error = made(kind)
        error.add_note("raised in action 'Look'")
        for again in (pickle.loads(pickle.dumps(error)), copy.deepcopy(error)):
            assert type(again) is kind
            assert (str(again), again.args, vars(again)) == (str(error), error.args, vars(error))


def test_an_error_of_a_user_survives_pickling_too() -> None:
    error = Unfit("Ann", reason="tired")
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), again.reason) == ("Ann is unfit", "tired")
    with pytest.raises(RolecraftError, match="Ann"):
        raise again


class Unfit(RolecraftError):
    def __init__(self, who: str, *, reason: str) -> None:
        self.reason = reason
        super().__init__(f"{who} is unfit")
