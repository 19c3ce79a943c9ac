"""How the class of a recorded value is found again: in its module at once, else by a search."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from rolecraft.errors import NotRestorable
from rolecraft.trajectories import values
from rolecraft.trajectories.values import decode_value, encode_value, type_address


@dataclass(frozen=True)
class Found:
    text: str


@dataclass(frozen=True)
class Renamed:
    text: str


Old = Renamed


def test_a_class_of_a_module_is_found_without_a_search(monkeypatch: pytest.MonkeyPatch) -> None:
    """A search looks at every class of the program, thousands of them, for each value."""

    def search(base: type) -> list[type]:
        raise AssertionError(f"searched below {base}")

    recorded = encode_value(Found("x"))
    monkeypatch.setattr(values, "_below", search)
    monkeypatch.setitem(__import__("sys").modules, Found.__module__, _Module)
    assert decode_value(recorded) == Found("x")


class _Module:
    """This file as a module: its tests are imported under a name of pytest's."""

    Found = Found
    Old = Old


def test_a_class_in_a_function_is_found_and_the_latest_of_several() -> None:
    def define() -> type:
        @dataclass(frozen=True)
        class Local:
            text: str

        return Local

    first, second = define(), define()
    assert type_address(first) == type_address(second)
    assert decode_value(encode_value(first("x"))) == second("x")


@pytest.mark.parametrize("name", ["Missing", "Old", "Found.Missing", "decode_value"])
def test_what_is_no_class_of_that_address_is_not_taken(name: str) -> None:
    recorded = encode_value(Found("x"))
    recorded["type"] = f"{values.__name__}.{name}"
    with pytest.raises(NotRestorable, match=name):
        decode_value(recorded)
