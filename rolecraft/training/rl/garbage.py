"""When garbage is collected in a training: after a step, and while it waits for episodes."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

_held = 0
"""Blocks of `garbage_waits` that are open, of trainings in this process."""


@contextmanager
def garbage_waits() -> Iterator[None]:
    """Collect garbage once, after the block, instead of again and again inside it.

    The episodes of a step live until it ends, so that collections meanwhile find next to nothing
    and look at everything: with a small model they are a third of the time. A collector that was
    off before stays off.
    """
    global _held
    if not gc.isenabled() and not _held:
        yield
        return
    _held += 1
    gc.disable()
    try:
        yield
    finally:
        _held -= 1
        if not _held:
            gc.enable()
            gc.collect()


@contextmanager
def garbage_goes() -> Iterator[None]:
    """Within `garbage_waits`, collect as ever: for a wait whose length nobody knows.

    Episodes that are played ahead go on meanwhile, and leave what they no longer need.
    """
    if not _held:
        yield
        return
    gc.enable()
    try:
        yield
    finally:
        if _held:
            gc.disable()
