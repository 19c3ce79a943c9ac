"""The two interventions of the MASFT paper (arXiv 2503.13657), as variants to compare.

Each family is a baseline, the same with an improved prompt, and a new topology. The paper's
teams were AG2's and ChatDev's; ours are the ready-made scenarios, and all prompts are ours.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from rolecraft.environments.program_development import ProgramEnvironment
from rolecraft.environments.task import TaskEnvironment
from rolecraft.errors import UnknownName
from rolecraft.experiments.variant import Variant
from rolecraft.models.limits import Limits
from rolecraft.roles.ready.software_company import HIERARCHY, cyclic_company
from rolecraft.roles.ready.software_company import software_company as dag_company
from rolecraft.roles.role import Role
from rolecraft.sandboxes import Sandbox
from rolecraft.scenarios.maths_chat import FORMS
from rolecraft.scenarios.software_company import (
    ROUNDS,
    software_company,
    software_company_cyclic,
)

NOTHING_IS_CLOSED = (
    "Whether a matter is settled is for those above you to say: the architect over engineer and "
    "project manager, the product manager for the customer. Name every open point; never call "
    "your own work finished."
)
LOOK_AT_THE_EDGES = (
    "Before anything passes, try its edges: no input at all, a single item, the largest and the "
    "smallest value, repeated and missing values, blank lines, malformed input, the first and the "
    "last step. A rule that has no test at its edge is not tested."
)
CLOSE_WITH_CARE = (
    "You alone close what those below you leave open: do so only when each point that they named "
    "is answered, and say how."
)


def maths_chat(*, sandbox: Sandbox | None = None) -> list[Variant]:
    """Student and assistant; with a section on verification; solver, coder and verifier.

    In the last only the verifier may end a run. Programs run in `sandbox`, a `Bubblewrap` unless
    given.
    """
    return [
        Variant("baseline", FORMS["chat"](sandbox=sandbox), 1, "student and assistant"),
        Variant("prompt", FORMS["prompt"](sandbox=sandbox), 1, "prompt with verification"),
        Variant("topology", FORMS["team"](sandbox=sandbox), 3, "solver, coder, verifier"),
    ]


def improved_company(*, sandbox: Sandbox | None = None) -> list[Role]:
    """The DAG, told that superiors alone close a discussion, and to verify the edges."""
    roles = dag_company(sandbox=sandbox)
    more = {
        "ProductManager": CLOSE_WITH_CARE,
        "Architect": CLOSE_WITH_CARE,
        "ProjectManager": NOTHING_IS_CLOSED,
        "Engineer": NOTHING_IS_CLOSED,
        "QaEngineer": f"{NOTHING_IS_CLOSED} {LOOK_AT_THE_EDGES}",
    }
    for role in roles:
        role.constraints = " ".join(filter(None, (role.constraints, more[role.name])))
    return roles


def software_company_variants(
    *,
    environment: type[TaskEnvironment] = ProgramEnvironment,
    sandbox: Sandbox | None = None,
    rounds: int = ROUNDS,
) -> list[Variant]:
    """The DAG; with an improved prompt; cyclic, until the CTO confirms all reviews.

    The cyclic form plays at most `rounds`. Tests of the team and checks of ours run in `sandbox`.
    """
    here = partial(environment, sandbox=sandbox)
    dag = replace(software_company, team=partial(dag_company, sandbox=sandbox), environment=here)
    prompt = replace(
        dag, name="software_company_prompt", team=partial(improved_company, sandbox=sandbox)
    )
    cyclic = replace(
        software_company_cyclic,
        team=partial(cyclic_company, sandbox=sandbox),
        environment=partial(here, limits=Limits(rounds=rounds), may_finish=HIERARCHY.heads),
    )
    return [
        Variant("baseline", dag, 6, "documents handed on once"),
        Variant("prompt", prompt, 6, "superiors close, edges are verified"),
        Variant("topology", cyclic, 7, "round until the CTO signs off"),
    ]


def chosen(variants: Sequence[Variant], names: Sequence[str]) -> list[Variant]:
    """The baseline and those of these names. Raises `UnknownName`."""
    known = {variant.name: variant for variant in variants}
    for name in names:
        if name not in known:
            raise UnknownName("Variant", name, known)
    return [each for each in variants if each is variants[0] or not names or each.name in names]
