"""Each modifier changes what `cases/FAMILY.txt` says, and nothing else.

In such a file a line at the margin is a modifier's name, one indented by two spaces is code, and
those by four are all that it becomes, in order; `⏎` is the end of a line. Code that is no function
stands in `def f():`.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from random import Random

import pytest

import rolecraft.synthesis.modifiers as package
from rolecraft.synthesis.modifiers import entities, known

CASES = Path(__file__).parent / "cases"


def cases() -> list[tuple[str, str, list[str]]]:
    """Modifier, code, what it becomes."""
    found: list[tuple[str, str, list[str]]] = []
    for path in sorted(CASES.glob("*.txt")):
        name = ""
        for line in path.read_text("utf-8").splitlines():
            text = line.strip().replace("⏎", "\n")
            if line.startswith("    "):
                found[-1][2].append(text)
            elif line.startswith("  "):
                found.append((name, text, []))
            elif line:
                name = line
    return found


def variants(modifier: str, code: str) -> list[tuple[str, str]]:
    """All that a modifier makes of the last function of a code, and the notes."""
    is_whole = code.startswith(("def ", "async def ", "class "))
    lines = [f"    {line}" for line in code.splitlines()]
    text = code if is_whole else "\n".join(["def f():", *lines])
    entity = [each for each in entities("a.py", f"{text}\n") if each.kind == "function"][-1]
    found = []
    for variant in known()[modifier].variants(entity, Random(0)):
        edit = entity.edit(entity.as_text(variant))
        made = (f"{text}\n"[: edit.start] + edit.text + f"{text}\n"[edit.end :]).removesuffix("\n")
        if not is_whole:
            made = "\n".join(line[4:] for line in made.splitlines()[1:])
        found.append((made, variant.note))
    return found


@pytest.mark.parametrize(("modifier", "code", "after"), cases())
def test_a_modifier_makes_these_variants_and_no_others(
    modifier: str, code: str, after: list[str]
) -> None:
    made = variants(modifier, code)
    assert [text for text, _ in made] == after
    assert all(note for _, note in made)


@pytest.mark.parametrize("path", sorted(CASES.glob("*.txt")), ids=lambda path: path.stem)
def test_every_modifier_of_a_family_has_cases(path: Path) -> None:
    """One that changes something; and for most also one that it rightly leaves alone."""
    module = f"{package.__name__}.{path.stem}"
    mine = {name for name, each in known().items() if each.variants.__module__ == module}
    assert mine == {name for name, _, after in cases() if after} & mine
    assert mine


def test_the_order_of_variants_is_the_same_in_every_process() -> None:
    """Python hashes texts differently in each process; nothing may be drawn from a set's order."""
    show = (
        "import sys; from random import Random\n"
        "from rolecraft.synthesis.modifiers import entities, known\n"
        "for path in sys.argv[1:]:\n"
        "    for entity in entities(path, open(path, encoding='utf-8').read()):\n"
        "        for name, each in known().items():\n"
        "            if entity.kind in each.kinds:\n"
        "                for variant in each.variants(entity, Random(0)):\n"
        "                    print(name, entity.id, variant.note)\n"
    )
    root = Path(package.__file__).parent
    paths = [str(root / name) for name in ("kinds.py", "bindings.py", "names.py")]
    said = [
        subprocess.run(
            [sys.executable, "-c", show, *paths],
            env={"PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    ]
    assert said[0] == said[1]
    assert said[0].count("\n") > 200
