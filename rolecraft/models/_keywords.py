"""Settings that several classes share: declared once, and still written as plain keywords."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from inspect import Signature, signature
from pathlib import Path
from typing import Concatenate, ParamSpec, TypeVar

from rolecraft.errors import UnknownName

P = ParamSpec("P")
Owner = TypeVar("Owner")
Settings = TypeVar("Settings")

_WithSettings = Callable[[Owner, str | Path, Settings], None]
_WithKeywords = Callable[Concatenate[Owner, str | Path, P], None]


def keywords_of(
    settings: Callable[P, Settings],
) -> Callable[[_WithSettings[Owner, Settings]], _WithKeywords[Owner, P]]:
    """For an `__init__(self, path, settings)`: callers write the keywords of `settings` instead.

    Type checkers, `inspect.signature` and `help` see each of them with its type and default; what
    `help` says of them is the docstring of `settings`. An unknown one is an `UnknownName`.
    """
    keywords = signature(settings).parameters

    def decorate(init: _WithSettings[Owner, Settings]) -> _WithKeywords[Owner, P]:
        @wraps(init)
        def taking(self: Owner, path: str | Path, /, *args: P.args, **given: P.kwargs) -> None:
            for name in sorted(given.keys() - keywords):
                raise UnknownName(f"Setting of `{type(self).__name__}`", name, keywords)
            init(self, path, settings(*args, **given))

        own = list(signature(init).parameters.values())[:-1]
        taking.__doc__ = settings.__doc__
        taking.__signature__ = Signature([*own, *keywords.values()])  # type: ignore[attr-defined]
        return taking

    return decorate
