"""The judge: a model that is asked about failure modes, and what it is believed.

`prompt` says what it is asked (`examples`: the few-shot part, `defused`: what a chat template
could misread), `asking` asks it, `answers` reads what it answers, `checking` holds its evidence
against the trace, `reading` takes it through the windows of a trace and `searching` through the
whole, `merging` makes one verdict of many, `judge` puts the parts together into an `opinion`.
For many traces: `redaction` takes secrets out, `tally` counts, `estimate` tells the cost before and
`campaign` runs it all; `models.prompt_cache` keeps answers, `models.rate_limiter` follows the
server.
"""

from rolecraft.failure_taxonomy.judging.asking import Asker, Conversation, tallied
from rolecraft.failure_taxonomy.judging.judge import VARIANTS, Grouping, Judge
from rolecraft.failure_taxonomy.judging.measured import Measured, read_measured, write_measured
from rolecraft.failure_taxonomy.judging.opinion import Opinion
from rolecraft.failure_taxonomy.judging.redaction import Redaction

__all__ = [
    "VARIANTS",
    "Asker",
    "Conversation",
    "Grouping",
    "Judge",
    "Measured",
    "Opinion",
    "Redaction",
    "read_measured",
    "tallied",
    "write_measured",
]
