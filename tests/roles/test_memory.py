"""What a role remembers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rolecraft import Action, Message
from rolecraft.roles import Memory
from rolecraft.roles.memory import History


class Write(Action):
    async def run(self) -> str:
        return ""


class Review(Action):
    async def run(self) -> str:
        return ""


def message(number: int, cause: type[Action] = Write) -> Message:
    return Message(f"text {number}", id=f"m{number}", cause_by=cause)


def filled(*numbers: int) -> Memory:
    memory = Memory()
    memory.add_batch(map(message, numbers))
    return memory


def test_each_message_is_remembered_once_by_its_id() -> None:
    memory = filled(1, 2, 1)
    assert [m.id for m in memory.get()] == ["m1", "m2"]
    assert message(2) in memory
    assert message(3) not in memory
    assert len(memory) == memory.count() == 2


def test_messages_of_equal_text_are_different_messages() -> None:
    """MetaGPT dropped them as duplicates; its Werewolf game numbers them to get around that."""
    memory = Memory()
    memory.add_batch([Message("yes"), Message("yes")])
    assert len(memory) == 2


def test_a_message_added_before_it_had_an_id_is_still_one() -> None:
    memory = Memory()
    said = Message("x")
    memory.add(said)
    said.id, said.cause_by = "m1", Write().address
    memory.add(said)
    memory.add(said)
    assert memory.get() == [said]
    assert memory.get_by_action(Write) == [said]


def test_get_gives_the_latest() -> None:
    memory = filled(1, 2, 3)
    assert [m.id for m in memory.get(2)] == ["m2", "m3"]
    assert len(memory.get(9)) == len(memory.get()) == 3


def test_messages_are_found_by_action_role_and_word() -> None:
    memory = Memory()
    first, second, third = message(1), message(2, Review), Message("text 3", role="Ann", id="m3")
    memory.add_batch([first, second])
    assert memory.get_by_action(Write) == [first]
    memory.add(third)
    assert memory.get_by_action(Review()) == memory.get_by_actions(Review().address) == [second]
    assert memory.get_by_actions([Review, Write]) == [first, second]
    assert memory.get_by_actions([]) == []
    assert memory.get_by_role("Ann") == [third]
    assert memory.try_remember("2") == [second]


def test_a_deleted_message_is_gone_and_can_come_back() -> None:
    memory = filled(1, 2, 3)
    second = memory.get()[1]
    memory.get_by_action(Write)
    memory.delete(second)
    memory.delete(message(9))
    assert [m.id for m in memory.get_by_action(Write)] == ["m1", "m3"]
    assert second not in memory
    memory.add(second)
    assert [m.id for m in memory.get()] == ["m1", "m3", "m2"]


def test_clear_forgets_everything() -> None:
    memory = filled(1, 2)
    memory.clear()
    assert (memory.get(), memory.get_by_action(Write), message(1) in memory) == ([], [], False)


def test_a_history_shows_what_was_there_when_it_was_taken() -> None:
    memory = filled(1, 2)
    taken = memory.history
    memory.add(message(3))
    assert [m.id for m in taken] == ["m1", "m2"]
    memory.delete(taken[0])
    memory.clear()
    assert [m.id for m in taken] == ["m1", "m2"]
    assert len(memory.history) == 0


def test_reading_beyond_a_history_says_how_long_it_is() -> None:
    with pytest.raises(IndexError, match="The history has 2 messages, no number 2"):
        _ = filled(1, 2).history[2]
    with pytest.raises(IndexError, match="no number -3"):
        _ = filled(1, 2).history[-3]


NUMBERS = st.integers(-12, 12) | st.none()


@given(st.integers(0, 8), st.integers(0, 4), st.slices(10), NUMBERS, NUMBERS, NUMBERS)
def test_a_history_reads_like_the_list_it_shows(
    length: int, later: int, piece: slice, start: int | None, stop: int | None, step: int | None
) -> None:
    messages = [message(number) for number in range(length)]
    memory = Memory()
    memory.add_batch(messages)
    history: History = memory.history
    memory.add_batch(message(100 + number) for number in range(later))
    for part in (piece, slice(start, stop, step or None)):
        assert history[part] == messages[part]
    for index in range(-length, length):
        assert history[index] is messages[index]
    assert list(history) == messages
    assert list(reversed(history)) == messages[::-1]
    assert len(history) == length
    for one in messages:
        assert one in history
        assert history.index(one) == messages.index(one)


def test_adding_costs_the_same_in_a_long_memory_as_in_a_short_one(growth: Any) -> None:
    """Wart 14: 16 times the messages cost 228 times as much."""

    def adds(count: int) -> Callable[[], object]:
        messages = [message(number) for number in range(count)]
        memory = Memory()

        def work() -> None:
            for one in messages:
                memory.add(one)
                memory.history[-1]
                memory.get(1)
            memory.get_by_action(Write)

        return work

    growth(adds, 4_000, 64_000, at_most=16 * 4)
