"""Models behind an address: an OpenAI-compatible server of a model and its role adapters."""

from typing import TYPE_CHECKING, Any

from rolecraft.serving.refusals import Refusal

if TYPE_CHECKING:
    from rolecraft.serving.app import make_app
    from rolecraft.serving.desk import Settings
    from rolecraft.serving.server import AddressTaken, ModelServer, bound

__all__ = ["AddressTaken", "ModelServer", "Refusal", "Settings", "bound", "make_app"]

# Modules that need FastAPI and uvicorn, imported when one of their names is first used.
_LAZY = {
    "AddressTaken": "server",
    "ModelServer": "server",
    "Settings": "desk",
    "bound": "server",
    "make_app": "app",
}


def __getattr__(name: str) -> Any:
    module = _LAZY.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    try:
        found = import_module(f"{__name__}.{module}")
    except ImportError as error:
        if error.name not in ("fastapi", "starlette", "uvicorn"):
            raise
        from rolecraft.errors import MissingExtra

        raise MissingExtra(error.name, "serve", "A server of models") from error
    return getattr(found, name)
