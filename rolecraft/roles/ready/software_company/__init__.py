"""The software company: documents handed on by kind of work, from a wish to a tested program."""

from rolecraft.roles.ready.software_company.company import cyclic_company, software_company
from rolecraft.roles.ready.software_company.cto import CTO, ReviewProduct, SignOff
from rolecraft.roles.ready.software_company.documents import (
    BugReport,
    CodeSummary,
    Design,
    Finding,
    Requirements,
    TaskList,
    TestReport,
    Verdict,
)
from rolecraft.roles.ready.software_company.engineer import Engineer, SummarizeCode, WriteCode
from rolecraft.roles.ready.software_company.planning import (
    Architect,
    ProductManager,
    ProjectManager,
    WriteDesign,
    WritePRD,
    WriteTasks,
)
from rolecraft.roles.ready.software_company.protocol import COMPANY, CYCLIC_COMPANY, HIERARCHY
from rolecraft.roles.ready.software_company.qa_engineer import (
    QaEngineer,
    ReportBugs,
    RunTests,
    WriteTest,
)

__all__ = [
    "COMPANY",
    "CTO",
    "CYCLIC_COMPANY",
    "HIERARCHY",
    "Architect",
    "BugReport",
    "CodeSummary",
    "Design",
    "Engineer",
    "Finding",
    "ProductManager",
    "ProjectManager",
    "QaEngineer",
    "ReportBugs",
    "Requirements",
    "ReviewProduct",
    "RunTests",
    "SignOff",
    "SummarizeCode",
    "TaskList",
    "TestReport",
    "Verdict",
    "WriteCode",
    "WriteDesign",
    "WritePRD",
    "WriteTasks",
    "WriteTest",
    "cyclic_company",
    "software_company",
]
