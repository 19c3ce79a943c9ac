"""One switch that keeps tests off real models.

It is process-wide on purpose: a test suite turns it on once, and a forgotten API model in the
depths of some fixture then fails loudly instead of spending money.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rolecraft.errors import RealModelForbidden

if TYPE_CHECKING:
    from rolecraft.models.base import Model

_forbidden = 0


@contextmanager
def forbid_real_models() -> Iterator[None]:
    """While in force, a call of any model but a test double raises `RealModelForbidden`."""
    global _forbidden
    _forbidden += 1
    try:
        yield
    finally:
        _forbidden -= 1


@contextmanager
def allow_real_models() -> Iterator[None]:
    """Lift `forbid_real_models` for a block (a test of a local server, say)."""
    global _forbidden
    before, _forbidden = _forbidden, 0
    try:
        yield
    finally:
        _forbidden = before


def check_allowed(model: Model) -> None:
    if _forbidden and model.real:
        raise RealModelForbidden(
            f"The model {model.name!r} was called while `forbid_real_models` is in force. "
            f"Use a `ScriptedModel` or `FunctionModel`, or wrap the call in `allow_real_models()`."
        )
