"""`metagpt.const`: the addresses that are nobody's name."""

from rolecraft.messages import ALL as MESSAGE_ROUTE_TO_ALL
from rolecraft.messages import NOBODY as MESSAGE_ROUTE_TO_NONE
from rolecraft.messages import SELF as MESSAGE_ROUTE_TO_SELF

__all__ = ["MESSAGE_ROUTE_TO_ALL", "MESSAGE_ROUTE_TO_NONE", "MESSAGE_ROUTE_TO_SELF"]
