"""The public names of a server's package, whose modules need the extra `serve`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

from rolecraft.errors import MissingExtra


def lazy_names(package: str, modules: Mapping[str, str], purpose: str) -> Callable[[str], Any]:
    """A `__getattr__` for `package`: each name's module is imported when it is first used.

    It raises `MissingExtra` without FastAPI or uvicorn; `purpose` is what needs them.
    """

    def find(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        try:
            found = import_module(f"{package}.{modules[name]}")
        except ImportError as error:
            if error.name not in ("fastapi", "starlette", "uvicorn"):
                raise
            raise MissingExtra(error.name, "serve", purpose) from error
        return getattr(found, name)

    return find
