"""Fields of roles and actions: what counts as one, and what making an object does with it."""

from __future__ import annotations

import typing as t
from typing import ClassVar

import pytest

from rolecraft import Action, Role
from rolecraft.errors import UnknownName, UsageError


class Chapter(Action):
    title: str
    pages: int = 3
    notes: list[str] = []

    async def run(self) -> str:
        return self.title


def test_fields_are_given_by_position_or_by_keyword() -> None:
    assert Chapter("Rain").title == Chapter(title="Rain").title == "Rain"
    assert (Chapter("Rain", 5).pages, Chapter("Rain").pages) == (5, 3)
    assert Chapter("Rain", name="Opening").name == "Opening"


def test_a_missing_field_is_named() -> None:
    with pytest.raises(UsageError, match=r"`Chapter\(\.\.\.\)` is missing `title`"):
        Chapter(pages=2)


def test_a_field_given_twice_is_named() -> None:
    with pytest.raises(UsageError, match="`Chapter` got 'title' twice"):
        Chapter("Rain", title="Sun")


def test_too_many_positional_arguments_say_how_many_and_that_keywords_work() -> None:
    with pytest.raises(UsageError, match=r"at most 3 positional arguments \(title, pages, notes\)"):
        Chapter("Rain", 5, [], "extra")
    with pytest.raises(UsageError, match=r"at most 1 positional argument \(title\)"):
        type("Cover", (Action,), {"__annotations__": {"title": str}})("Rain", 5)
    with pytest.raises(UsageError, match=r"by keyword: `Role\(name=\.\.\.\)`"):
        Role("Ann")


def test_an_unknown_keyword_is_told_the_nearest_and_all_known_ones() -> None:
    """Wart: MetaGPT stores a misspelt keyword silently."""
    with pytest.raises(UnknownName) as caught:
        Role(profil="editor")
    assert "`Role` keyword 'profil' is not known. Did you mean 'profile'?" in str(caught.value)
    assert "`goal`" in str(caught.value)


def test_a_mutable_default_is_copied_for_each_instance() -> None:
    first, second = Chapter("a"), Chapter("b")
    first.notes.append("wet")
    assert (second.notes, Chapter.notes) == ([], [])


def test_a_subclass_may_override_a_field_without_an_annotation() -> None:
    class Editor(Role):
        goal = "short headlines"

    assert Editor().goal == "short headlines"
    assert Editor(goal="long ones").goal == "long ones"


def test_a_field_annotated_again_keeps_its_default() -> None:
    class Editor(Role):
        profile: str

    assert Editor().profile == ""


def test_a_plain_value_in_the_class_is_a_field_too() -> None:
    class Print(Action):
        content = "1"

        async def run(self) -> str:
            return self.content

    assert Print(content="2").content == "2"


def test_class_variables_properties_and_methods_are_no_fields() -> None:
    class Guide(Role):
        limit: ClassVar[int] = 3
        table: t.ClassVar[dict[str, int]] = {}

        @property
        def profile(self) -> str:  # type: ignore[override]
            return f"guide number {self.limit}"

        def greet(self) -> str:
            return "hello"

    guide = Guide()
    assert guide.profile == "guide number 3"
    assert guide.table is Guide.table
    for name in ("limit", "table", "profile", "greet"):
        with pytest.raises(UnknownName):
            Guide(**{name: 1})


@pytest.mark.parametrize("future", ["", "from __future__ import annotations\n"])
@pytest.mark.parametrize(
    "spelling", ["ClassVar[int]", "t.ClassVar[int]", "ClassVar", "typing.ClassVar"]
)
def test_class_variables_are_known_in_every_spelling(future: str, spelling: str) -> None:
    program = (
        "import typing, typing as t\nfrom typing import ClassVar\nfrom rolecraft import Role\n"
        f"class Guide(Role):\n    limit: {spelling} = 3\n    place: str = 'here'\n"
        "    ClassVariety: int = 1\n"
    )
    names: dict[str, t.Any] = {}
    exec(future + program, names)
    guide = names["Guide"](place="there", ClassVariety=2)
    assert (guide.limit, guide.place, guide.ClassVariety) == (3, "there", 2)
    with pytest.raises(UnknownName):
        names["Guide"](limit=1)


def test_a_subclass_may_set_a_class_variable_without_making_it_a_field() -> None:
    class Base(Role):
        limit: ClassVar[int] = 3

    class Derived(Base):
        limit = 4

    assert Derived().limit == 4
    with pytest.raises(UnknownName):
        Derived(limit=5)


def test_a_property_with_a_setter_is_written_through_it() -> None:
    class Thermostat(Role):
        @property
        def degrees(self) -> float:
            return self._kelvin - 273.15

        @degrees.setter
        def degrees(self, value: float) -> None:
            self._kelvin = value + 273.15

    role = Thermostat()
    role.degrees = 20.0
    assert role.degrees == pytest.approx(20.0)


def test_fields_of_two_base_classes_are_both_known() -> None:
    class Polite(Role):
        greeting: str = "good morning"

    class Strict(Role):
        patience: int = 0
        goal = "order"

    class Teacher(Polite, Strict):
        pass

    teacher = Teacher(greeting="hello", patience=2)
    assert (teacher.greeting, teacher.patience, teacher.goal) == ("hello", 2, "order")


def test_positional_fields_of_a_subclass_without_annotations_are_its_parents() -> None:
    class Long(Chapter):
        pages = 90

    assert Long("Rain").title == "Rain"
    assert Long("Rain").pages == 90


def test_a_subclass_with_its_own_init_calls_super_when_it_likes() -> None:
    class Counter(Role):
        def __init__(self, start: int, **kwargs: t.Any) -> None:
            self.start = start
            super().__init__(**kwargs)
            self.set_actions([Chapter("Rain")])

    role = Counter(4, name="Ann")
    assert (role.start, role.name, role.states) == (4, "Ann", ["0. Chapter"])


def test_an_init_without_super_is_told_what_to_call() -> None:
    class Forgetful(Role):
        def __init__(self) -> None:
            self.set_actions([Chapter("Rain")])

    with pytest.raises(AttributeError, match=r"call `super\(\).__init__\(\*\*kwargs\)` first"):
        Forgetful()


def test_a_name_that_is_not_set_is_the_class_name() -> None:
    """Wart 16: it was a property object."""

    class Editor(Role): ...

    assert Editor().name == "Editor"
    assert Role().name == "Role"
    assert Chapter("Rain").name == "Chapter"
