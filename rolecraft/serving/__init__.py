"""Models behind an address: an OpenAI-compatible server of a model and its role adapters."""

from typing import TYPE_CHECKING

from rolecraft._listening import AddressTaken, bound
from rolecraft._listening.lazy import lazy_names
from rolecraft.serving.refusals import Refusal

if TYPE_CHECKING:
    from rolecraft.serving.app import make_app
    from rolecraft.serving.desk import Settings
    from rolecraft.serving.server import ModelServer

__all__ = ["AddressTaken", "ModelServer", "Refusal", "Settings", "bound", "make_app"]

__getattr__ = lazy_names(
    __name__,
    {"ModelServer": "server", "Settings": "desk", "make_app": "app"},
    "A server of models",
)
