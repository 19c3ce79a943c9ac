"""Three answer a maths problem, see each other's answers, answer again; the majority counts.

The problem has a known answer, so that one can measure whether talking about it helped. In the
stand-in's version only Ann is right at first, and the others find their mistakes in her reasoning.
"""

import json

from rolecraft import FunctionModel, Model, Task
from rolecraft.models import ModelCall
from rolecraft.scenarios.debate import debate


def stand_in(task: Task) -> Model:
    """A model that is told the answer: it cannot calculate, but it can play the three."""

    def answer(call: ModelCall) -> str:
        enlightened = call.role == "Ann" or "Ann says" in call.messages[-1].content
        return json.dumps(
            {
                "reasoning": "I checked every step." if enlightened else "I did it in my head.",
                "answer": task.data["answer"] if enlightened else "1000",
            }
        )

    return FunctionModel(answer, name="script")


if __name__ == "__main__":
    from _options import play

    play(debate, stand_in=stand_in)
