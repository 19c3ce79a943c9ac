"""What is planted is decided by the seed, the entity and the modifier alone."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest

from rolecraft.errors import UnknownName, UsageError
from rolecraft.synthesis.candidates import Candidate
from rolecraft.synthesis.folder import SynthesisFolder
from rolecraft.synthesis.ledger import Ledger, read_ledger
from rolecraft.synthesis.modifiers import Entity, Modifier, Variant, base
from rolecraft.synthesis.plan import Plan
from rolecraft.synthesis.planting import plant, survey
from rolecraft.synthesis.project import Project
from rolecraft.synthesis.suite import Suite
from rolecraft.synthesis.written.given import take_patches

LISTS = '''\
"""Lists."""


def chunks(items, size):
    """Pieces of that size."""
    if size < 1:
        raise ValueError("size")
    found = []
    for start in range(0, len(items), size):
        found.append(items[start : start + size])
    return found


class Stack:
    limit = 3

    def __init__(self):
        self.items = []

    def push(self, item):
        if len(self.items) >= self.limit:
            return False
        self.items.append(item)
        return True

    def pop(self, default=None):
        return self.items.pop() if self.items else default

    def __repr__(self):
        return f"Stack({self.items!r})" if self.items else "Stack()"
'''
TEXTS = """\
def shout(text, times=1):
    return text.strip().upper() + "!" * times


def initials(name):
    return "".join(part[0] for part in name.split() if part and part[0] != "-")
"""
FILES = {"toy/lists.py": LISTS, "toy/texts.py": TEXTS}
TESTS = tuple(f"test_{number}" for number in range(10))

MakePlan = Callable[..., tuple[Plan, SynthesisFolder]]


def everything(text: str, tests: tuple[str, ...]) -> dict[int, tuple[str, ...]]:
    return dict.fromkeys(range(1, text.count("\n") + 1), tests)


@pytest.fixture
def make_plan(tmp_path: Path) -> MakePlan:
    """`make_plan(files, seen_by)`: a plan whose code is all files."""

    def make(
        files: Mapping[str, str] = FILES,
        seen_by: Mapping[str, Mapping[int, tuple[str, ...]]] | None = None,
        place: str = "out",
    ) -> tuple[Plan, SynthesisFolder]:
        folder = SynthesisFolder(tmp_path / place)
        for path, text in files.items():
            (folder.source / path).parent.mkdir(parents=True, exist_ok=True)
            (folder.source / path).write_bytes(text.encode())
        if seen_by is None:
            seen_by = {path: everything(text, TESTS[:2]) for path, text in files.items()}
        project = Project(name="toy", source=str(folder.source), code=tuple(files), tests=())
        plan = Plan(project, Suite(outcomes=dict.fromkeys(TESTS, "passed"), seen_by=seen_by))
        plan.save(folder)
        return plan, folder

    return make


SOME = ["invert-if", "change-constant", "change-operator", "remove-call", "remove-method"]


def all_of(plan: Plan, folder: SynthesisFolder, **options: Any) -> list[Candidate]:
    plant(plan, folder, **{"most": None, "per_entity": None, **options})
    return list(read_ledger(folder.candidates, Candidate, key=lambda each: each.id))


def of(candidates: list[Candidate], *, path: str = "", modifier: str = "") -> list[Candidate]:
    return [
        each
        for each in candidates
        if path in ("", each.entity, each.entity.partition("::")[0])
        and (not modifier or each.modifier == modifier)
    ]


def test_the_same_seed_gives_the_same_candidates_in_the_same_order(make_plan: MakePlan) -> None:
    one, two = (all_of(*make_plan(place=place)) for place in ("a", "b"))
    assert one == two
    other = all_of(*make_plan(place="c"), seed=1)
    assert [each.id for each in other] != [each.id for each in one]
    assert len(one) > 40


def test_another_file_changes_nothing_of_the_others(make_plan: MakePlan) -> None:
    both = all_of(*make_plan(place="both"))
    alone = all_of(*make_plan({"toy/texts.py": TEXTS}, place="alone"))
    assert len(alone) > 10
    assert of(both, path="toy/texts.py") == alone


def test_another_entity_changes_nothing_of_the_others(make_plan: MakePlan) -> None:
    """Not even one before them in their file: only where they stand is another place."""
    added = "def before(a):\n    return a + 1 if a > 2 else a\n\n\n"
    told = [(each.key, each.note) for each in all_of(*make_plan(place="without"))]
    more = all_of(*make_plan({**FILES, "toy/lists.py": added + LISTS}, place="with"))
    kept = [each for each in more if not each.entity.endswith("::before")]
    assert [(each.key, each.note) for each in kept] == told
    assert len(kept) < len(more)


def test_another_modifier_changes_nothing_of_the_others(make_plan: MakePlan) -> None:
    """Each gives the same changes in the same order, whichever others there are."""
    few = all_of(*make_plan(place="few"), modifiers=SOME[:2])
    more = all_of(*make_plan(place="more"), modifiers=SOME)
    for entity in {each.entity for each in few}:
        for name in SOME[:2]:
            assert of(few, path=entity, modifier=name) == of(more, path=entity, modifier=name)


def test_candidates_are_different_and_none_is_the_clean_code(make_plan: MakePlan) -> None:
    plan, folder = make_plan()
    candidates = all_of(plan, folder)
    read = plan.reader()
    whole = [str(sorted(each.texts(read).items())) for each in candidates]
    assert len(set(whole)) == len(whole) == len({each.key for each in candidates})
    for each in candidates:
        for path, text in each.texts(read).items():
            assert ast.dump(ast.parse(text)) != ast.dump(ast.parse(FILES[path]))


def test_a_method_changed_through_its_class_is_no_second_candidate(
    make_plan: MakePlan, own_modifiers: None
) -> None:
    """Two modifiers make the same method, one of them of the class."""

    @base.modifier("class")
    def through_class(entity: Entity, rng: Random) -> Iterator[Variant]:
        """The class."""
        yield from base.known()["change-constant"].variants(entity, rng)
        for each in entity.find(*(type(entity.node.name),)):
            if each.value == "default":
                yield entity.replacing(each, each.with_changes(value="item"), note="class")
                return

    @base.modifier("function")
    def through_method(entity: Entity, rng: Random) -> Iterator[Variant]:
        """The method."""
        for each in entity.find(*(type(entity.node.name),)):
            if each.value == "default":
                yield entity.replacing(each, each.with_changes(value="item"), note="method")
                return

    plan, folder = make_plan()
    done = plant(plan, folder, modifiers=["through-class", "through-method"])
    assert done.same.total() == 1
    assert done.total == 3  # the class's constant in both directions, and the method


@pytest.fixture
def own_modifiers() -> Iterator[None]:
    before = dict(base._KNOWN)
    yield
    base._KNOWN.clear()
    base._KNOWN.update(before)


def test_most_takes_from_all_entities_and_modifiers(make_plan: MakePlan) -> None:
    """Not the first files, not the modifier with the most variants."""
    plan, folder = make_plan()
    candidates = all_of(plan, folder, most=12)
    assert len(candidates) == 12
    by_entity = Counter(each.entity for each in candidates)
    assert len(by_entity) >= 6
    assert max(by_entity.values()) <= 3
    assert len({each.modifier for each in candidates}) >= 8


def test_the_limits_hold(make_plan: MakePlan) -> None:
    plan, folder = make_plan()
    candidates = all_of(plan, folder, per_entity=4, per_modifier=2)
    assert max(Counter(each.entity for each in candidates).values()) == 4
    assert max(Counter(each.modifier for each in candidates).values()) == 2


def test_a_smaller_draw_is_the_beginning_of_a_larger_one(make_plan: MakePlan) -> None:
    plan, folder = make_plan(place="a")
    first = all_of(plan, folder, most=10)
    done = plant(plan, folder, most=25)
    assert (done.total, done.before) == (25, 10)
    both = all_of(plan, folder, most=25)
    assert both[:10] == first
    assert both == all_of(*make_plan(place="b"), most=25)


@pytest.mark.parametrize("cut", [0, 1, 400, -1])
def test_a_killed_draw_goes_on_where_it_was(make_plan: MakePlan, cut: int) -> None:
    """Also from the middle of a line."""
    plan, folder = make_plan()
    whole = all_of(plan, folder, most=20)
    data = folder.candidates.read_bytes()
    folder.candidates.write_bytes(data[:cut])
    assert all_of(plan, folder, most=20) == whole
    assert folder.candidates.read_bytes() == data


def test_what_others_have_planted_is_not_planted_again(make_plan: MakePlan) -> None:
    """A model's bug that is the same as a modifier's stays the only one."""
    plan, folder = make_plan()
    (first, *_) = all_of(plan, folder, most=1)
    folder.candidates.unlink()
    with Ledger(folder.candidates, Candidate, key=lambda each: each.id) as ledger:
        ledger.append(replace(first, id="toy__modify__1", modifier="modify"))
    candidates = all_of(plan, folder)
    assert [each.id for each in candidates if each.key == first.key] == ["toy__modify__1"]


def test_code_that_no_test_sees_is_left_out_unless_it_is_asked_for(make_plan: MakePlan) -> None:
    seen = {"toy/lists.py": {}, "toy/texts.py": everything(TEXTS, TESTS[:1])}
    plan, folder = make_plan(seen_by=seen)
    done = plant(plan, folder, most=None)
    assert {each.entity.partition("::")[0] for each in all_of(plan, folder)} == {"toy/texts.py"}
    assert done.unseen > 10
    everywhere = plant(plan, folder, most=None, unseen=True)
    assert everywhere.unseen == 0
    assert everywhere.total > done.total


def test_what_few_tests_see_is_drawn_before_what_all_see(make_plan: MakePlan) -> None:
    """A bug where every test runs breaks most of them, and is no task."""
    seen = {"toy/lists.py": everything(LISTS, TESTS), "toy/texts.py": everything(TEXTS, TESTS[:2])}
    candidates = all_of(*make_plan(seen_by=seen), modifiers=SOME)
    places: dict[str, list[int]] = {path: [] for path in FILES}
    for number, each in enumerate(candidates):
        places[each.entity.partition("::")[0]].append(number)
    early, late = places["toy/texts.py"], places["toy/lists.py"]
    assert sum(early) / len(early) < sum(late) / len(late)


def test_without_coverage_all_code_is_planted_in(make_plan: MakePlan) -> None:
    candidates = all_of(*make_plan(seen_by={}))
    assert {each.entity.partition("::")[0] for each in candidates} == set(FILES)


def test_a_repr_is_left_alone(make_plan: MakePlan) -> None:
    assert not [each for each in all_of(*make_plan()) if "__repr__" in each.entity]


def test_a_file_that_is_refused_costs_no_other(make_plan: MakePlan) -> None:
    plan, folder = make_plan({**FILES, "toy/old.py": "print 'x'\n"})
    done = plant(plan, folder)
    assert list(done.refused) == ["toy/old.py"]
    assert done.total > 40


def test_a_modifier_that_fails_is_told_of_and_costs_no_other(
    make_plan: MakePlan, own_modifiers: None
) -> None:
    def wrong(entity: Entity, rng: Random) -> Iterator[Variant]:
        raise RuntimeError("odd code")
        yield

    base._KNOWN["wrong"] = Modifier("wrong", wrong, ("function",))
    plan, folder = make_plan({"toy/texts.py": TEXTS})
    done = plant(plan, folder, modifiers=["wrong", "change-constant"])
    assert done.refused == {
        "toy/texts.py::shout (wrong)": "RuntimeError: odd code",
        "toy/texts.py::initials (wrong)": "RuntimeError: odd code",
    }
    assert set(done.made) == {"change-constant"}


def test_a_modifier_that_there_is_not_is_refused(make_plan: MakePlan) -> None:
    with pytest.raises(UnknownName, match=r"'invert-fi'.*Did you mean 'invert-if'"):
        survey(make_plan()[0], modifiers=["invert-fi"])


def test_a_project_without_python_is_refused(make_plan: MakePlan) -> None:
    plan, folder = make_plan({"src/a.cpp": "int f() { return 1; }\n"})
    with pytest.raises(UsageError, match="`toy` has no Python code"):
        plant(plan, folder)
    assert not folder.candidates.exists()


@pytest.mark.parametrize("limit", ["most", "per_modifier", "per_entity"])
def test_the_limits_are_altogether_also_over_seeds(make_plan: MakePlan, limit: str) -> None:
    """A second seed once began to count anew: `--most 8` gave ten."""
    plan, folder = make_plan()
    everything = {"most": None, "per_modifier": None, "per_entity": None}
    first = all_of(plan, folder, **{**everything, limit: 2})
    second = all_of(plan, folder, seed=1, **{**everything, limit: 2})
    if limit == "most":
        assert second == first
    field = {"per_modifier": "modifier", "per_entity": "entity"}.get(limit)
    if field is not None:
        assert max(Counter(getattr(each, field) for each in second).values()) == 2
    more = all_of(plan, folder, seed=1, **{**everything, limit: 4})
    assert more[: len(second)] == second
    assert len(more) > len(second)


async def test_every_planted_bug_given_again_as_a_patch_is_known(make_plan: MakePlan) -> None:
    """Patches had keys of another kind, so that a bug came twice, maybe into two splits."""
    nested = {
        **FILES,
        "toy/blocks.py": "try:\n    import sys\nexcept ImportError:\n    def f(a):\n"
        "        return a + 1\nelse:\n    class A:\n        if sys:\n            def g(self, a):\n"
        "                return a - 1 if a else 0\n\n        def h(self, a):\n"
        "            return a * 2\n",
    }
    plan, folder = make_plan(nested)
    planted = all_of(plan, folder)
    assert {"toy/blocks.py::f", "toy/blocks.py::A.g", "toy/lists.py::Stack.pop"} <= {
        each.entity for each in planted
    }
    some = planted[:: max(1, len(planted) // 60)]
    patches = [(each.id, each.patch(plan.reader())) for each in some]
    found = await take_patches(folder, patches, polarity="bug")
    assert (found.made, {*found.refused.values()}) == (
        0,
        {"a candidate that does the same is there"},
    )
