"""What log messages say of the action that runs."""

from __future__ import annotations

from rolecraft import _log
from rolecraft.actions.action import running


def _running() -> dict[str, str]:
    now = running.get()
    return {} if now is None else {"role": now.owner.name, "action": now.action.name}


_log.whereabouts.append(_running)
