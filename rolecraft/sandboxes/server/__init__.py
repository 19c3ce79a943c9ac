"""Sandboxes behind an address, for clients on other machines: see `rolecraft.sandboxes.Remote`."""

from typing import TYPE_CHECKING

from rolecraft._listening.lazy import lazy_names
from rolecraft.sandboxes.server.settings import MOST, ServerSettings

if TYPE_CHECKING:
    from rolecraft.sandboxes.server.app import make_app
    from rolecraft.sandboxes.server.server import SandboxServer

__all__ = ["MOST", "SandboxServer", "ServerSettings", "make_app"]

__getattr__ = lazy_names(
    __name__, {"SandboxServer": "server", "make_app": "app"}, "A sandbox server"
)
