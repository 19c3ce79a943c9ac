"""What the servers of ours share: sockets, keys and their end. `server` needs uvicorn."""

from rolecraft._listening.keys import BearerKeys, names_this_machine
from rolecraft._listening.sockets import LOOPBACK, AddressTaken, bound

__all__ = ["LOOPBACK", "AddressTaken", "BearerKeys", "bound", "names_this_machine"]
