"""Every modifier, on the files of Rolecraft itself: each variant is Python, is another program, and
leaves the rest of its file as it is.
"""

from __future__ import annotations

import ast
import hashlib
import warnings
from pathlib import Path
from random import Random

import pytest

import rolecraft
from rolecraft.synthesis.edits import apply_edits
from rolecraft.synthesis.modifiers import Entity, Modifier, entities, known

ROOT = Path(rolecraft.__file__).parent


def lot(text: str) -> int:
    """A number for it, the same each time."""
    return int(hashlib.sha256(text.encode()).hexdigest()[:12], 16)


def sample(part: int, *, files: int) -> list[Path]:
    """Other files for each part. Those of the modifiers themselves are like any others."""
    paths = sorted(ROOT.rglob("*.py"), key=lambda path: lot(path.relative_to(ROOT).as_posix()))
    return paths[part * files : (part + 1) * files]


def check(path: str, text: str, entity: Entity, modifier: Modifier, *, most: int) -> set[str]:
    """The notes of those that were looked at."""
    found = list(modifier.variants(entity, Random(0)))
    again = list(modifier.variants(entity, Random(0)))
    assert [each.note for each in found] == [each.note for each in again]
    found.sort(key=lambda each: lot(each.note))
    for variant in found[:most]:
        changed = entity.as_text(variant)
        edit = entity.edit(changed)
        whole = apply_edits(path, text, [edit])
        assert whole == text[: entity.start] + changed + text[entity.start + len(entity.text) :]
        try:
            key = entity.key_of(changed)
            ast.parse(whole)
        except SyntaxError as error:
            pytest.fail(f"{modifier.name} in {entity.id}, {variant.note}: {error}\n{changed}")
        assert key != entity.key, f"{modifier.name} in {entity.id}: nothing changes, {variant.note}"
    return {each.note for each in found[:most]}


def sweep(part: int, *, files: int, most: int) -> dict[str, set[str]]:
    seen: dict[str, set[str]] = {}
    for path in sample(part, files=files):
        text = path.read_bytes().decode()
        for entity in entities(path.name, text):
            for name, modifier in known().items():
                if entity.kind in modifier.kinds:
                    seen.setdefault(name, set()).update(
                        check(path.name, text, entity, modifier, most=most)
                    )
    return seen


def test_variants_of_some_files_are_other_programs() -> None:
    seen = sweep(0, files=4, most=2)
    assert len({name for name, notes in seen.items() if notes}) > 20


@pytest.mark.slow
def test_variants_of_many_files_are_other_programs() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        seen = sweep(1, files=10, most=3)
    assert len({name for name, notes in seen.items() if notes}) > 40
