"""The crosswalk: the published code systems, row by row, and how to get from one to another.

A row is a concept, a column a system. The rows come from comparing the definitions, not the
names or the numbers. Two public crosswalks send the verification codes of the first round in
opposite directions; here a code follows the definition that its annotators read.
"""

from __future__ import annotations

from collections.abc import Mapping

from rolecraft.errors import UnknownName
from rolecraft.failure_taxonomy.codes.system import CodeSystem
from rolecraft.failure_taxonomy.modes import Category

# paper: figures of versions 1 and 3. notebook: the judge's prompt, agentdash, the judge-labelled
# data. deftxt: `definitions.txt` of the repository. final: last round of the human-labelled data.
_TABLE = """
concept              paper  notebook  deftxt  final  round1  round23  judge16  adamast
task_spec            1.1    1.1       1.1     1.1    1.1     1.1      1.1      MAST-1
role_spec            1.2    1.2       1.2     1.2    2.6     1.7      1.6      MAST-2
repetition           1.3    1.3       1.3     1.3    2.2     1.5      1.4      MAST-3
history_loss         1.4    1.4       1.4     1.4    2.3     1.6      1.5      MAST-4
termination_unaware  1.5    1.5       1.5     1.5    1.5     1.3      1.2      MAST-5
reset                2.1    2.1       2.1     2.1    2.4     2.1      2.1      MAST-6
no_clarification     2.2    2.2       2.2     2.2    1.4     2.2      2.2      MAST-7
derailment           2.3    2.3       2.3     2.3    2.5     2.3      2.3      MAST-8
withholding          2.4    2.4       2.4     2.4    3.2     2.6      2.5      MAST-9
ignored_input        2.5    2.5       2.5     2.5    3.3     2.7      2.6      MAST-10
reason_action        2.6    2.6       2.6     2.6    1.2     1.2      2.7      -
premature_end        3.1    3.1       3.1     3.1    4.1     3.1      3.1      MAST-11
verification.absent  3.2    3.2       3.3     3.3    4.2     3.3      3.3      MAST-12
verification.weak    3.3    3.3       3.2     3.2    4.3     3.2      3.2      MAST-13/MAST-14
ambiguity            -      -         -       -      1.3     2.4      2.4      -
unbatched            -      -         -       -      2.1     1.4      1.3      -
disagreement         -      -         -       -      3.1     2.5      -        -
waiting              -      -         -       -      3.4     -        -        -
"""

_NAMES = """
task_spec: Disobey task specification / Poor task constraint compliance
role_spec: Disobey role specification
repetition: Step repetition
history_loss: Loss of conversation history / Backtracking interruption
termination_unaware: Unaware of termination conditions / Unaware of stopping conditions
reset: Conversation reset / Trajectory restart
no_clarification: Fail to ask for clarification / Fail to elicit clarification
derailment: Task derailment / Derailment from task
withholding: Information withholding / Information witholding / Withholding relevant information
withholding: Witholding / Withholding
ignored_input: Ignored other agent's input / Ignoring suggestions from agents
ignored_input: Ignoring suggestions
reason_action: Reasoning-action mismatch / Action-reasoning mismatch
reason_action: Inconsistency between reasoning and action
premature_end: Premature termination / Premature exit
premature_end: Ill specified termination condition leading to premature termination
verification.absent: No or incomplete verification / Lack of result verification
verification.absent: No or incorrect verification
verification.weak: Incorrect verification / Lack of critical verification / Weak verification
ambiguity: Undetected conversation ambiguities and contradictions
unbatched: Unbatched repetitive execution
disagreement: Disagreement induced inaction
waiting: Waiting for known information
"""

_QUESTIONS = """
task_spec: Poor adherence to specified constraints
role_spec: Tendency to overachieve / Blurring roles
repetition: Step repetition
history_loss: Discontinued reasoning
termination_unaware: Unaware of stopping conditions
reset: Trajectory restart
no_clarification: Fail to elicit clarification / Proceed with incorrect assumptions
derailment: Derailing from task objectives
withholding: Withholding relevant information
ignored_input: Ignoring good suggestions from other agent
reason_action: Misalignment between internal thoughts and response message
premature_end: Claiming that a task is done while it is not true
verification.absent: No attempt to verify outcome
verification.weak: Evaluator agent fails to be critical
ambiguity: Fail to detect ambiguities/contradictions
unbatched: Redundant conversation turns for iterative tasks rather than batching
disagreement: Difficulty in agreeing with agents
waiting: Waiting on agents to discover known insights for increased confidence
waiting: Underperform by waiting on instructions
invention: Invented content
"""

_SHORTENED = """
reason_action: Misalignment between internal thoughts and response
disagreement: Difficulty in agreeing
waiting: Underperform by waiting
"""


def _rows(text: str) -> list[tuple[str, str]]:
    """(concept, name) for each name in lines such as `reset: Conversation reset / Restart`."""
    lines = [line.split(": ", 1) for line in text.strip().splitlines()]
    return [(concept, name) for concept, names in lines for name in names.split(" / ")]


def _column(title: str) -> dict[str, str]:
    """The codes of a column, each with its concept."""
    head, *rows = (line.split() for line in _TABLE.strip().splitlines())
    at = head.index(title)
    return {code: row[0] for row in rows for code in row[at].split("/") if code != "-"}


_ALL_NAMES = {name: concept for concept, name in _rows(_NAMES)}
_FINAL_NAMES = {
    "No or incomplete verification": "verification.weak",
    "Incorrect verification": "verification.absent",
}
_V1 = {
    Category.SYSTEM_DESIGN: "Specification and system design failures",
    Category.MISALIGNMENT: "Inter-agent misalignment",
    Category.VERIFICATION: "Task verification and termination",
}
_V2 = {
    Category.SYSTEM_DESIGN: "Specification issues",
    Category.MISALIGNMENT: "Inter-agent misalignment",
    Category.VERIFICATION: "Task verification",
}
_V3 = {category: category.value for category in Category}

MAST_V3 = CodeSystem(
    id="mast-v3",
    name="MAST-14 (arXiv 2503.13657v3)",
    source="Figure 1 and appendix A of the paper's third version: 3.2 absent, 3.3 inadequate",
    concepts=_column("paper"),
    names=_ALL_NAMES,
    categories=_V3,
)
"""The numbering of the paper's third version (NeurIPS 2025), which reports use."""

MASFT_V1 = CodeSystem(
    id="masft-v1",
    name="MASFT-14 (arXiv 2503.13657v1)",
    source="Figure 2 of the paper's first version: the codes of the third, other categories",
    concepts=_column("paper"),
    names=_ALL_NAMES,
    categories=_V1,
)

MAST_NOTEBOOK = CodeSystem(
    id="mast-notebook",
    name="MAST-14 (judge notebook and agentdash)",
    source="the judge's prompt: 3.2 'No or Incorrect Verification', 3.3 'Weak Verification'; "
    "so are the judge's labels in MAD",
    concepts=_column("notebook"),
    names=_ALL_NAMES,
    categories=_V2,
)

MAST_DEFINITIONS = CodeSystem(
    id="mast-definitions",
    name="MAST-14 (definitions.txt)",
    source="`definitions.txt` of the study's repository: 3.2 'Weak Verification', "
    "3.3 'No or Incorrect Verification'",
    concepts=_column("deftxt"),
    names=_ALL_NAMES,
)

MAST_LINT = CodeSystem(
    id="mast-lint",
    name="MAST-14 (mast-lint, FM-1.1 to FM-3.3)",
    source="mast-lint's labels, which follow the paper's third version",
    concepts=_column("paper"),
    names=_ALL_NAMES,
    categories=_V3,
)

MAD_HUMAN_FINAL = CodeSystem(
    id="mad-human-final",
    name="MAST-14 (MAD human labels, final round)",
    source="the definitions below the names: 3.2 a weak check, 3.3 none, as in rounds 2 and 3",
    concepts=_column("final"),
    names=_ALL_NAMES | _FINAL_NAMES,
    implied={"verification.absent": "verification.weak"},
)
"""The last round of the human labels, where names and definitions of 3.2 and 3.3 disagree.

The names are the paper's ("3.2 No or Incomplete Verification": absent), the definitions below
them are those of rounds 2 and 3 word for word (3.2: "verifier exists in the system, but it is
weak"). We go by the definitions: they are what the same annotators had worked with before, they
are long where the name is short, the rule that ends the text of 3.2 ("implicitly True if 3.3 Lack
of result verification is true") makes sense with them only, and labels follow it: annotators mark
3.2 and 3.3 of one trace, which by the names would be no check and a wrong one. Whoever reads it
the other way takes `MAST_V3`; an agreement's merged row "any verification failure" is the same.
"""

MAD_ROUND_1 = CodeSystem(
    id="mad-round-1",
    name="annotation round 1 (18 modes)",
    source="MAD human labels, 'Round 1'",
    concepts=_column("round1"),
    names=_ALL_NAMES,
)

MAD_ROUNDS_2_3 = CodeSystem(
    id="mad-rounds-2-3",
    name="annotation rounds 2 and 3 (17 modes)",
    source="MAD human labels, 'Round 2' and 'Round 3'",
    concepts=_column("round23"),
    names=_ALL_NAMES,
    implied={"verification.absent": "verification.weak"},
)

JUDGE_16 = CodeSystem(
    id="judge-16",
    name="judge prompt of March 2025 (16 modes)",
    source="the MASFT notebook",
    concepts=_column("judge16"),
    names=_ALL_NAMES,
)

ADAMAST = CodeSystem(
    id="adamast",
    name="AdaMAST (MAST-1 to MAST-14)",
    source="AdaMAST's built-in codes: MAST-13 weak and MAST-14 incorrect verification are one "
    "concept, reasoning-action mismatch has no code",
    concepts=_column("adamast"),
    names=_ALL_NAMES,
)

OPEN_CODES = CodeSystem(
    id="open-codes",
    name="open codes (22 questions)",
    source="one expert's notes, made before the taxonomy; the authors' own map, but for 'Tendency "
    "to overachieve' and 'Blurring roles', mapped here, and 'Invented content', which no mode has",
    concepts={name: concept for concept, name in _rows(_QUESTIONS)},
    names={name: concept for concept, name in _rows(_QUESTIONS + _SHORTENED.lstrip())},
)
"""The question is the code."""

SYSTEMS: Mapping[str, CodeSystem] = {
    system.id: system
    for system in (
        MAST_V3,
        MASFT_V1,
        MAST_NOTEBOOK,
        MAST_DEFINITIONS,
        MAST_LINT,
        MAD_HUMAN_FINAL,
        MAD_ROUND_1,
        MAD_ROUNDS_2_3,
        JUDGE_16,
        ADAMAST,
        OPEN_CODES,
    )
}
"""The known code systems by id."""


def get_system(name: str) -> CodeSystem:
    """The code system with this id or full name. Raises `UnknownName`."""
    for system in SYSTEMS.values():
        if name in (system.id, system.name):
            return system
    raise UnknownName("Code system", name, SYSTEMS)


def translate(code: str, source: CodeSystem | str, target: CodeSystem | str) -> str:
    """The code in `target` for what `code` (or a name) stands for in `source`.

    It goes through the concept. Empty if `target` has no code for it, as for concepts that the
    study gave up; the first one if it has several. Raises what `CodeSystem.concept` raises.
    """
    source = get_system(source) if isinstance(source, str) else source
    target = get_system(target) if isinstance(target, str) else target
    return target.code(source.concept(code))
