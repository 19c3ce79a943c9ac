"""Who works in the company, in the two forms of its process.

`software_company` is a DAG: each kind of work goes on to the next, once. `cyclic_company` has the
same roles and a CTO; what QA or the CTO finds wrong goes back to whoever answers for it, and the
work goes round until the CTO signs off.
"""

from __future__ import annotations

from rolecraft.roles.ready.software_company.cto import CTO, ReviewProduct
from rolecraft.roles.ready.software_company.engineer import Engineer
from rolecraft.roles.ready.software_company.planning import (
    Architect,
    ProductManager,
    ProjectManager,
)
from rolecraft.roles.ready.software_company.protocol import COMPANY, CYCLIC_COMPANY
from rolecraft.roles.ready.software_company.qa_engineer import QaEngineer, ReportBugs
from rolecraft.roles.role import Role
from rolecraft.sandboxes import Sandbox


def software_company(*, sandbox: Sandbox | None = None) -> list[Role]:
    """The roles of the DAG. Their tests run in `sandbox`, bubblewrap unless given."""
    return [
        ProductManager(protocol=COMPANY),
        Architect(protocol=COMPANY),
        ProjectManager(protocol=COMPANY),
        Engineer(protocol=COMPANY),
        QaEngineer(protocol=COMPANY, sandbox=sandbox),
    ]


def cyclic_company(*, sandbox: Sandbox | None = None) -> list[Role]:
    """The roles of the cyclic form, for an environment with `may_finish=HIERARCHY.heads`.

    It differs from the DAG in who listens to whom: those who make something hear what is found
    wrong with it, and QA mends nobody else's work.
    """
    found_wrong = (ReportBugs, ReviewProduct)
    return [
        ProductManager(protocol=CYCLIC_COMPANY),
        Architect(protocol=CYCLIC_COMPANY, watch=(*Architect.watch, *found_wrong)),
        ProjectManager(protocol=CYCLIC_COMPANY),
        Engineer(protocol=CYCLIC_COMPANY, watch=(*Engineer.watch, *found_wrong)),
        QaEngineer(
            protocol=CYCLIC_COMPANY,
            watch=(*QaEngineer.watch, ReviewProduct),
            mends_code=False,
            sandbox=sandbox,
        ),
        CTO(protocol=CYCLIC_COMPANY),
    ]
