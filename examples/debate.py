"""Two debaters argue about a question, and a judge ends the debate when it is sure.

In between the judge says what is still open. See also `examples/panel.py`.
"""

import json

from rolecraft import FunctionModel, Model, Team
from rolecraft.models import ModelCall
from rolecraft.roles.ready.debate import debaters_and_judge

QUESTION = "Should a small team write its program in one repository, or one for each service?"
POSITIONS = ("one repository", "one repository for each service")


def team(model: Model | None = None) -> Team:
    """Ann, Ben and the judge; `rolecraft run examples/debate.py:team --task "..."` runs them."""
    return Team(
        debaters_and_judge(POSITIONS),
        model=model or FunctionModel(script, name="script"),
        may_finish=["Judge"],
    )


ARGUMENTS = {
    "Ann": [
        "A change that touches two services is one change, with one review and one test run.",
        "Granted, builds get slower with size. But five people do not write that much.",
        "One version of everything is tested together, so nobody asks which goes with which.",
    ],
    "Ben": [
        "With a repository each, a service can be built, tested and released on its own.",
        "Releases can be separate in one repository too, granted. But permissions cannot.",
        "Granted: five people who all may see everything need no permissions.",
    ],
}
VERDICTS = [
    {
        "answer": POSITIONS[0],
        "confidence": 0.6,
        "reasons": ["changes across services are common in a small team"],
        "missing": "whether a small team needs separate permissions",
    },
    {
        "answer": POSITIONS[0],
        "confidence": 0.85,
        "reasons": ["Ben granted that releases and permissions decide nothing here"],
    },
]


def script(call: ModelCall) -> str:
    """What a debate of three exchanges could sound like."""
    asked = call.messages[-1].content
    if call.role == "Judge":
        return json.dumps(VERDICTS["Still open:" in asked])
    turn = asked.count(f"\n{call.role}: ")
    return ARGUMENTS[call.role][turn]


if __name__ == "__main__":
    from _options import main

    main(team, task=QUESTION)
