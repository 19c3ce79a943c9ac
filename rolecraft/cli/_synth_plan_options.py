"""The options of `rolecraft synth plan`, which `make` takes too."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

Tests = Annotated[
    Path | None,
    typer.Option(
        "--tests",
        metavar="DIR",
        help="Folder with the tests, if PATH has none (a wheel). It is copied into the source.",
    ),
]
Also = Annotated[
    list[str] | None,
    typer.Option(
        "--also",
        metavar="FILE",
        help="A file, folder or pattern in PATH that git ignores and the tests need. All else that "
        "git ignores stays out of the tasks. May be repeated.",
    ),
]
Runner = Annotated[
    Literal["pytest", "junit", "ctest"] | None,
    typer.Option(
        "--runner",
        help="What runs the tests. Default: pytest, or CTest where CMakeLists.txt has tests.",
    ),
]
TestCommand = Annotated[
    str | None,
    typer.Option(
        "--test-command",
        metavar="WORDS",
        help="For pytest: further arguments. Else the command that builds, tests and writes "
        "--report.",
    ),
]
Report = Annotated[
    str, typer.Option("--report", metavar="FILE", help="The report that the command writes.")
]
Pure = Annotated[
    bool,
    typer.Option("--pure", help="Go on though there are parts to compile: it works without."),
]
MostFailing = Annotated[
    float,
    typer.Option(
        "--most-failing", min=0, max=1, metavar="SHARE", help="Share of tests that may fail."
    ),
]
TestSeconds = Annotated[
    float,
    typer.Option("--test-seconds", min=0.1, metavar="S", help="Seconds that one test has."),
]
SuiteSeconds = Annotated[
    float,
    typer.Option("--suite-seconds", min=1, metavar="S", help="Seconds that all of them have."),
]
