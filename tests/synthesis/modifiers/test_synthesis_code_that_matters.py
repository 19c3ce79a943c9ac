"""`Entity.code` leaves out what no test can see."""

from __future__ import annotations

import libcst as cst

from rolecraft.synthesis.modifiers.code import dotted
from rolecraft.synthesis.modifiers.entities import entities

TEXT = '''\
class A:
    __slots__ = ("slot",)
    __all__ = ["exported"]

    @decorated(1)
    def f(self, x: annotated = given) -> returned:
        """Docstring."""
        import imported
        global declared
        if typing.TYPE_CHECKING:
            unseen()
        self._logger.info("logged %s", shown)
        warnings.warn(deprecated)
        y: inner = cast("Typed", math.log(read))
        assert checked, message
        self.log.append(kept)
        return y
'''


def names(text: str) -> set[str]:
    (entity, *_) = entities("a.py", text)
    strings = {each.value for each in entity.code(cst.SimpleString)}
    return strings | {each.value for each in entity.code(cst.Name)}


def test_what_does_not_run_or_does_not_matter_is_left_out() -> None:
    assert names(TEXT) == {
        *("A", "f", "self", "x", "given", "y", "cast", "math", "log", "read", "checked"),
        *("append", "kept"),
    }


def test_a_part_of_an_entity_is_read_in_the_same_way() -> None:
    """`code(within=…)` leaves out the same things, and begins with the part itself."""
    (entity,) = entities("a.py", "def f():\n    g(1)\n    logger.debug(2)\n    return 3\n")
    assert [each.value for each in entity.code(cst.Integer)] == ["1", "3"]
    (call, _) = entity.find(cst.Call)
    assert entity.code(cst.Call, within=call) == [call]


def test_a_chain_of_names_is_written_with_dots() -> None:
    assert dotted(cst.parse_expression("a.b.c")) == "a.b.c"
    assert dotted(cst.parse_expression("a().b")) == ""
