"""A model that guesses: the baseline that says what chance alone gives."""

from __future__ import annotations

import random
from collections.abc import Sequence

from rolecraft.errors import UsageError
from rolecraft.models.base import Completion, Model, Sampling, Session, Tool


class UniformModel(Model):
    """Picks one of `Sampling.choices`, each as likely as the others.

    The draw depends on the session's seed and the number of the call, on nothing else.
    """

    name = "uniform"
    real = False

    async def _complete(
        self, session: Session, tools: Sequence[Tool], sampling: Sampling
    ) -> Completion:
        if not sampling.choices:
            raise UsageError(
                "`UniformModel` picks among choices and got none: ask with `returns=Literal[...]`."
            )
        draw = random.Random(f"{session.seed}/{len(session.messages)}")
        return Completion(text=draw.choice(sampling.choices))
