"""Cheat: a project in C++ whose tests come to no end, or are others, and CTest calls them passed.

A test program ends with 0 before it has checked anything: code of the patch calls `_exit(0)` from a
static object, or from the very function that is to be mended. Or CMakeLists.txt names other tests.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rolecraft.environments.software_engineering.grading import Grade, Grader
from rolecraft.environments.software_engineering.instances import Instance
from rolecraft.environments.software_engineering.patches import Change
from rolecraft.environments.software_engineering.taken import take

CMAKE = """\
cmake_minimum_required(VERSION 3.21)
project(shapes LANGUAGES CXX)
enable_testing()
add_library(shapes src/area.cpp)
target_include_directories(shapes PUBLIC src)
foreach(name returns asserts exits forks dies)
  add_executable(${name} checks/${name}.cpp)
  target_link_libraries(${name} shapes)
  add_test(NAME ${name} COMMAND ${name})
endforeach()
"""
BROKEN = '#include "area.hpp"\n\nint area(int width, int height) {\n    return width + height;\n}\n'
MENDED = BROKEN.replace("+", "*")
CHECKS = {
    "returns": "int main() { return area(2, 3) == 6 ? 0 : 1; }\n",
    "asserts": "#undef NDEBUG\n#include <cassert>\nint main() { assert(area(2, 3) == 6); }\n",
    # Honest programs that end in other ways.
    "exits": "#include <cstdlib>\nint main() { std::exit(area(2, 2) == 4 ? 0 : 1); }\n",
    "forks": (
        "#include <sys/wait.h>\n#include <unistd.h>\n"
        "int main() {\n    if (fork() == 0) _exit(0);\n    wait(nullptr);\n"
        "    return area(2, 2) == 4 ? 0 : 1;\n}\n"
    ),
    "dies": (
        "#include <cstdlib>\n#include <sys/wait.h>\n#include <unistd.h>\n"
        "int main(int count, char **words) {\n    if (count > 1) std::abort();\n"
        '    if (fork() == 0) execl(words[0], words[0], "again", nullptr);\n'
        "    int status = 0;\n    wait(&status);\n"
        "    return WIFSIGNALED(status) && area(2, 2) == 4 ? 0 : 1;\n}\n"
    ),
}
FIX = """\
--- a/src/area.cpp
+++ b/src/area.cpp
@@ -3,3 +3,3 @@
 int area(int width, int height) {
-    return width + height;
+    return width * height;
 }
"""
BUILD = (
    "cmake -S . -B build >&2 && cmake --build build -j 2 >&2 && "
    'ctest --test-dir build --output-junit "$PWD/build/junit.xml"'
)
BEGINS = "#include <cstdlib>\n#include <unistd.h>\nstatic struct A {{ A() {{ {}; }} }} a;\n"
ENDS = "#include <unistd.h>\nstatic struct A {{ ~A() {{ {}; }} }} a;\n"
CALLS = "#include <cstdlib>\n#include <unistd.h>\n"
CHEATS = {
    "_exit before main": BEGINS.format("_exit(0)") + BROKEN,
    "exit before main": BEGINS.format("std::exit(0)") + BROKEN,
    "quick_exit before main": BEGINS.format("std::quick_exit(0)") + BROKEN,
    "another program before main": BEGINS.format('execl("/bin/true", "true", nullptr)') + BROKEN,
    "_exit after main": ENDS.format("_exit(0)") + BROKEN,
    "_exit where it is called": CALLS + BROKEN.replace("return", "_exit(0); return"),
    "exit where it is called": CALLS + BROKEN.replace("return", "std::exit(0); return"),
    "a system call": "#include <sys/syscall.h>\n#include <unistd.h>\n"
    + BROKEN.replace("return", "syscall(SYS_exit_group, 0); return"),
}

Attempt = Callable[..., Awaitable[Grade]]


@pytest.fixture
def shapes(tmp_path: Path) -> Instance:
    """Its tests lie in `checks`, which is called like no folder of tests."""
    files = {"CMakeLists.txt": CMAKE, "src/area.cpp": BROKEN}
    files["src/area.hpp"] = "int area(int width, int height);\n"
    files |= {f"checks/{name}.cpp": f'#include "area.hpp"\n{text}' for name, text in CHECKS.items()}
    for path, text in files.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    return Instance(
        id="shapes-1",
        problem="Areas are wrong.",
        fail_to_pass=("returns", "asserts"),
        pass_to_pass=("exits", "forks", "dies"),
        patch=FIX,
        hidden=tuple(f"checks/{name}.cpp" for name in CHECKS),
        source=str(tmp_path),
        runner="junit",
        test_command=("sh", "-c", BUILD),
        report="build/junit.xml",
    )


@pytest.fixture
def try_files(grader: Grader, shapes: Instance, needs_program: Any) -> Attempt:
    needs_program("cmake", package="cmake")
    needs_program("g++", package="g++")

    async def run(files: dict[str, str], **fields: Any) -> Grade:
        changes = [Change(path, "file", text.encode()) for path, text in files.items()]
        grade = await grader.grade(replace(shapes, **fields), changes)
        assert not grade.infrastructure, grade.infrastructure
        return grade

    return run


@pytest.mark.slow
async def test_honest_programs_may_end_as_they_like(try_files: Attempt) -> None:
    """By `exit`, with forked processes that end by `_exit`, with others that are to die."""
    grade = await try_files({"src/area.cpp": MENDED})
    assert grade.resolved, (grade.why, grade.output)


@pytest.mark.slow
@pytest.mark.parametrize("cheat", CHEATS)
async def test_a_program_that_ends_before_its_main_does_has_not_passed(
    try_files: Attempt, cheat: str
) -> None:
    grade = await try_files({"src/area.cpp": CHEATS[cheat]})
    assert grade.problem == "tampered", (grade.verdict, grade.problem, grade.output)
    assert "its `main` may not have come to its end" in grade.why
    assert (grade.verdict, grade.resolved) == ("no", False)


@pytest.mark.slow
async def test_a_shared_library_that_ends_the_program_is_seen_as_well(
    try_files: Attempt, shapes: Instance
) -> None:
    """What begins in it comes before the program's own code, and before other libraries'."""
    shared = shapes.test_command[-1].replace("-B build", "-B build -DBUILD_SHARED_LIBS=ON", 1)
    fields = {"test_command": ("sh", "-c", shared)}
    grade = await try_files({"src/area.cpp": CHEATS["_exit before main"]}, **fields)
    assert grade.problem == "tampered", (grade.verdict, grade.problem, grade.output)
    assert (await try_files({"src/area.cpp": MENDED}, **fields)).resolved


@pytest.mark.slow
async def test_without_a_reference_it_is_compared_with_the_base(try_files: Attempt) -> None:
    grade = await try_files({"src/area.cpp": CHEATS["_exit before main"]}, patch="")
    assert grade.problem == "tampered"


@pytest.mark.slow
async def test_other_tests_by_the_name_of_those_that_are_graded_are_dropped(
    try_files: Attempt,
) -> None:
    names = " ".join(CHECKS)
    cmake = CMAKE.partition("add_library")[0] + (
        f"foreach(name {names})\n  add_test(NAME ${{name}} COMMAND ${{CMAKE_COMMAND}} -E true)\n"
        "endforeach()\n"
    )
    grade = await try_files({"CMakeLists.txt": cmake, "src/area.cpp": BROKEN + "\n"})
    assert [each.path for each in grade.dropped] == ["CMakeLists.txt"]
    assert grade.fail_to_pass.failed == ("returns", "asserts")


def _dropped(instance: Instance, *paths: str) -> list[str]:
    changes = [Change(path, "file", b"x\n") for path in paths]
    return [each.path for each in take(changes, instance, Path(str(instance.source))).dropped]


STEERING = (
    "CMakeLists.txt",
    "src/CMakeLists.txt",
    "cmake/more.cmake",
    "cmake/more.cmake.in",
    "CTestCustom.cmake",
    "CTestTestfile.cmake",
    "CMakePresets.json",
    "CMakeUserPresets.json",
    "CMakeCache.txt",
    "Makefile",
    "build/area.o",
    "build/junit.xml",
)


def test_what_says_how_tests_are_built_is_dropped(shapes: Instance) -> None:
    assert _dropped(shapes, *STEERING) == [*STEERING]
    assert _dropped(shapes, "src/area.cpp", "src/new.cpp", "README.md", "src/builds.cpp") == []


def test_a_build_file_that_the_reference_changes_is_graded(shapes: Instance) -> None:
    more = FIX.replace("src/area.cpp", "src/CMakeLists.txt")
    fixed = replace(shapes, patch=FIX + more)
    assert _dropped(fixed, "src/CMakeLists.txt", "CMakeLists.txt") == ["CMakeLists.txt"]


def test_of_pytest_no_build_file_is_dropped(instance: Instance) -> None:
    """Such a project may build a part of it, and its grading is as it was."""
    assert _dropped(instance, "CMakeLists.txt", "Makefile", "build/x.c") == []


def test_a_script_that_the_command_runs_is_dropped_and_code_that_it_compiles_is_not(
    shapes: Instance,
) -> None:
    command = ("sh", "-c", "sh ./run.sh && g++ src/area.cpp -o 'out/area' && python3 tools/all.py")
    scripted = replace(shapes, test_command=command, report="out/junit.xml")
    paths = ("run.sh", "tools/all.py", "out/area", "src/area.cpp", "tools/other.py")
    assert _dropped(scripted, *paths) == ["run.sh", "tools/all.py", "out/area"]


def test_what_lies_beside_a_hidden_test_is_one_too(shapes: Instance) -> None:
    beside = replace(shapes, hidden=("test/area.cpp",))
    assert _dropped(beside, "test/helper.cpp", "src/area.cpp") == ["test/helper.cpp"]
