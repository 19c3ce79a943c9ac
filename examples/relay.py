"""Two roles must pass a number on: the smallest scenario, with signals and a reward.

`rolecraft demo` trains the same two roles from random weights.
"""

from rolecraft import FunctionModel
from rolecraft.models import ModelCall
from rolecraft.scenarios.relay import relay


def perfect(call: ModelCall) -> str:
    """What a planner and an executor who understood their task answer."""
    words = call.messages[-1].content.split()
    if call.role == "planner":  # "asked b"
        return words[1]
    return str((int(words[1]) + int(words[3])) % 5)  # "value 3 plus 4"


if __name__ == "__main__":
    from _options import play

    play(relay, stand_in=lambda task: FunctionModel(perfect, name="script"))
