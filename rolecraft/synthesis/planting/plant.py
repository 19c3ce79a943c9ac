"""Drawing candidates: each possible change is counted first, and written when its turn comes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice

from rolecraft.errors import UnknownName, UsageError
from rolecraft.synthesis.candidates import Candidate, candidate_id
from rolecraft.synthesis.folder import SynthesisFolder
from rolecraft.synthesis.ledger import Ledger
from rolecraft.synthesis.modifiers import Entity, Modifier, Refused, Variant, known
from rolecraft.synthesis.plan import Plan
from rolecraft.synthesis.planting.order import Place, places
from rolecraft.synthesis.planting.sight import Sight
from rolecraft.synthesis.planting.trees import Trees

AT_ONCE = 256
"""Changes that are written together, so that each file is read once for many of them."""


@dataclass(slots=True)
class Survey:
    """What could be changed, in the order in which it is drawn."""

    seed: int
    modifiers: Mapping[str, Modifier]
    trees: Trees
    places: list[Place] = field(default_factory=list)
    entities: int = 0
    unseen: int = 0
    """Changes that no test sees, which are left out."""
    refused: dict[str, str] = field(default_factory=dict)
    """Files, and modifiers of an entity, that gave nothing, and why."""


@dataclass(slots=True)
class Planted:
    """What came of it."""

    made: Counter[str] = field(default_factory=Counter)
    """Candidates by modifier, also those that were there already, whatever the seed."""
    before: int = 0
    """How many of them were."""
    same: Counter[str] = field(default_factory=Counter)
    """Changes that do nothing, or what a candidate does already, by modifier."""
    unseen: int = 0
    refused: dict[str, str] = field(default_factory=dict)

    @property
    def total(self) -> int:
        return self.made.total()


def chosen_modifiers(names: Iterable[str] | None = None) -> dict[str, Modifier]:
    """Those of these names, or all. Raises `UnknownName` for a name that is none."""
    everything = known()
    if names is None:
        return everything
    chosen = list(dict.fromkeys(names))
    for name in chosen:
        if name not in everything:
            raise UnknownName("modifier", name, everything)
    return {name: everything[name] for name in sorted(chosen)}


def python_files(plan: Plan) -> list[str]:
    """The files that modifiers can change."""
    return [path for path in plan.project.code if path.endswith((".py", ".pyi"))]


def survey(
    plan: Plan,
    *,
    seed: int = 0,
    modifiers: Iterable[str] | None = None,
    unseen: bool = False,
    on_file: Callable[[str], None] = lambda path: None,
) -> Survey:
    """Count what could be changed in the plan's project; nothing is written.

    `unseen` also takes changes that no test sees. Raises `UnknownName` for a modifier that there is
    not, and `UsageError` for a project without Python code.
    """
    trees, sight = Trees(plan.reader(), seed), Sight(plan.suite)
    found = Survey(seed, chosen_modifiers(modifiers), trees)
    files = python_files(plan)
    if not files:
        raise UsageError(
            f"`{plan.project.name}` has no Python code, and modifiers change no other. Give fixes "
            f"of bugs, or bugs, as patches: `rolecraft synth write OUT --patches DIR`."
        )
    for path in files:
        try:
            entities = trees.entities(path)
        except Refused as error:
            found.refused[path] = str(error)
            entities = []
        for number, entity in enumerate(entities):
            if not entity.name.endswith("__repr__"):
                found.places += _places(found, entity, number, sight, unseen=unseen)
                found.entities += 1
        on_file(path)
    found.places.sort()
    return found


def _places(
    found: Survey, entity: Entity, number: int, sight: Sight, *, unseen: bool
) -> list[Place]:
    shares: dict[str, list[tuple[int, float | None]]] = {}
    for name, modifier in found.modifiers.items():
        if entity.kind not in modifier.kinds:
            continue
        shares[name] = []
        for index, variant in enumerate(_variants(found, entity, number, modifier)):
            share = sight.share(entity.path, entity.lines(variant))
            if share == 0 and not unseen:
                found.unseen += 1
            else:
                shares[name].append((index, share))
    return places(found.seed, entity, number, shares, found.modifiers)


def _variants(found: Survey, entity: Entity, number: int, modifier: Modifier) -> list[Variant]:
    """What a modifier has of an entity. One that fails on odd code is told of, and costs no
    other.
    """
    try:
        return found.trees.variants(entity.path, number, modifier)
    except Exception as error:
        found.refused[f"{entity.id} ({modifier.name})"] = f"{type(error).__name__}: {error}"
        return []


def plant(
    plan: Plan,
    folder: SynthesisFolder,
    *,
    seed: int = 0,
    most: int | None = 1000,
    per_entity: int | None = 20,
    per_modifier: int | None = None,
    modifiers: Iterable[str] | None = None,
    unseen: bool = False,
    surveyed: Survey | None = None,
    on_candidate: Callable[[Candidate], None] = lambda candidate: None,
) -> Planted:
    """Draw candidates into the folder's ledger, as `order.py` says, until `most` are there.

    What an entity and a modifier give is decided by `seed` and their names alone. Called again, it
    goes on where it was: with the same arguments nothing is added, with a larger `most` the next
    ones. All limits are altogether: what these modifiers gave with another seed counts. What does
    the same as a candidate that is there is left out, as is, unless `unseen`, what no test sees.
    `surveyed` is the `survey` of the same arguments, if somebody made it already.

    Raises as `survey` does, and `JournalError` if the ledger cannot be written.
    """
    if surveyed is None:
        surveyed = survey(plan, seed=seed, modifiers=modifiers, unseen=unseen)
    done = Planted(unseen=surveyed.unseen, refused=dict(surveyed.refused))
    by_entity: Counter[str] = Counter()
    with Ledger(folder.candidates, Candidate, key=lambda each: each.id) as ledger:
        keys: dict[str, str] = {}
        for candidate in ledger:
            keys[candidate.key] = candidate.id
            if candidate.modifier in surveyed.modifiers:
                done.before += 1
                done.made[candidate.modifier] += 1
                by_entity[candidate.entity] += 1
                on_candidate(candidate)
        for candidate, is_seen in _written(plan, surveyed, done.refused):
            if most is not None and done.total >= most:
                break
            if (
                candidate.id in ledger
                or _is_full(by_entity[candidate.entity], per_entity)
                or _is_full(done.made[candidate.modifier], per_modifier)
            ):
                continue
            if not (is_seen or unseen):
                done.unseen += 1
            elif not candidate.key or keys.setdefault(candidate.key, candidate.id) != candidate.id:
                done.same[candidate.modifier] += 1
            else:
                ledger.append(candidate)
                by_entity[candidate.entity] += 1
                done.made[candidate.modifier] += 1
                on_candidate(candidate)
    return done


def _is_full(count: int, limit: int | None) -> bool:
    return limit is not None and count >= limit


def _written(
    plan: Plan, surveyed: Survey, refused: dict[str, str]
) -> Iterator[tuple[Candidate, bool]]:
    """The changes in their order as candidates, and whether a test may see them.

    One that does nothing has no key.
    """
    read = plan.reader()
    rest = iter(surveyed.places)
    while batch := list(islice(rest, AT_ONCE)):
        made: dict[Place, Candidate] = {}
        for path in dict.fromkeys(place.path for place in batch):
            here = [place for place in batch if place.path == path]
            made.update(_of_file(plan.project.name, surveyed, path, here, refused))
        for place in batch:
            if place in made:
                candidate = made[place]
                yield candidate, plan.suite.seeing(candidate.lines(read)) != []


def _of_file(
    project: str, surveyed: Survey, path: str, wanted: Sequence[Place], refused: dict[str, str]
) -> Iterator[tuple[Place, Candidate]]:
    for place in wanted:
        entity, name = surveyed.trees.entities(path)[place.entity], place.modifier
        modifier = surveyed.modifiers[name]
        variant = surveyed.trees.variants(path, place.entity, modifier)[place.variant]
        try:
            text = entity.as_text(variant)
            key = entity.key_of(text)
        except Exception as error:  # such as SyntaxError: a `break` outside of its loop
            what = f"{entity.id} ({name}: {variant.note})"
            refused[what] = f"{type(error).__name__}: {error}"
            continue
        edits = (entity.edit(text),)
        yield (
            place,
            Candidate(
                id=candidate_id(project, name, edits),
                modifier=name,
                entity=entity.id,
                edits=edits,
                key="" if key == entity.key else key,
                note=variant.note,
            ),
        )
