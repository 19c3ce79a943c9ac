"""Syntax trees that several gradings make at the same time, each in a thread of its own."""

from __future__ import annotations

import ast
import gc
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from rolecraft.environments.software_engineering._parsing import parse


@pytest.fixture
def threads_take_turns() -> Iterator[None]:
    """Within the making of a tree too: whenever garbage is collected, the next thread goes on."""

    def give_way(phase: str, info: dict[str, int]) -> None:
        time.sleep(0)

    before = gc.get_threshold()
    gc.callbacks.append(give_way)
    gc.set_threshold(50)
    yield
    gc.set_threshold(*before)
    gc.callbacks.remove(give_way)


@pytest.mark.usefixtures("threads_take_turns")
def test_trees_made_at_the_same_time_do_not_disturb_each_other() -> None:
    """CPython 3.11's own `ast.parse` fails so, with "recursion depth mismatch"."""
    source = Path(ast.__file__).read_text("utf-8")
    with ThreadPoolExecutor(4) as threads:
        trees = list(threads.map(parse, [source] * 8))
    assert {len(tree.body) for tree in trees} == {len(trees[0].body)}


def test_what_is_no_python_is_refused_as_ever() -> None:
    with pytest.raises(SyntaxError):
        parse("def")
