"""Three answer a maths problem, see each other's answers, answer again; the majority counts.

With `--form debate`, two debate the problem before a judge. Its answer is known, so that one can
measure whether talking helped. In the stand-in's version only Ann is right at first, and the others
find their mistakes in her reasoning.
"""

import json

from rolecraft import FunctionModel, Model, Task
from rolecraft.models import ModelCall
from rolecraft.scenarios.debate import debate, panel


def stand_in(task: Task) -> Model:
    """A model that is told the answer: it cannot calculate, but it can play everybody."""
    right = task.data["answer"]

    def answer(call: ModelCall) -> str:
        asked = call.messages[-1].content
        if call.role == "Judge":
            return json.dumps({"answer": right, "confidence": 0.9, "reasons": ["Ben granted it"]})
        if "The debate so far" in asked:
            return f"It is {right}." if call.role == "Ann" or "Ann: " in asked else "It is 1000."
        enlightened = call.role == "Ann" or "Ann says" in asked
        reasoning = "I checked every step." if enlightened else "I did it in my head."
        return json.dumps({"reasoning": reasoning, "answer": right if enlightened else "1000"})

    return FunctionModel(answer, name="script")


if __name__ == "__main__":
    from _options import play

    play({"panel": panel, "debate": debate}, stand_in=stand_in)
