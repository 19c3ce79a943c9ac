"""Which samples are in the training output, and why another one is not.

What is left out is kept aside with its reason and counted. It is decided anew whenever output is
written, from what the ledger measured: a switch that is changed costs nothing but writing again.
"""

from __future__ import annotations

from rolecraft.rollouts.batch.config import BatchConfig
from rolecraft.rollouts.batch.ledger import DISCARDED, OK, Entry

NO_REASONING = DISCARDED + "no-reasoning"
INVENTED_TOOLS = DISCARDED + "invented-tools"
BY_SWITCH = (OK, NO_REASONING, INVENTED_TOOLS)
"""What a finished sample is, by the switches."""


def status_of(entry: Entry, config: BatchConfig) -> str:
    """What an item is under the switches of `config`; of any other item what its entry says."""
    if entry.status not in BY_SWITCH:
        return entry.status
    if entry.invented and not config.keep_invented_tools:
        return INVENTED_TOOLS
    if entry.turns and not entry.reasoned and not config.keep_without_reasoning:
        return NO_REASONING
    return OK


def reason_of(entry: Entry) -> str:
    """Why a sample was left out, in words."""
    if entry.status == INVENTED_TOOLS:
        return f"no such tool: {', '.join(entry.invented)}"
    if entry.status == NO_REASONING:
        return f"none of its {entry.turns} answers has reasoning"
    return entry.error
