"""Messages and addresses."""

from __future__ import annotations

import enum

import pytest

from rolecraft import Action, Message, Role, UserRequirement
from rolecraft.errors import UsageError
from rolecraft.messages import ALL, USER_REQUIREMENT, address_of, addresses_of, as_message


class Write(Action):
    async def run(self) -> str:
        return "text"


class Writer(Role):
    actions = [Write]


WRITE = f"{__name__}.Write"
WRITER = f"{__name__}.Writer"


def test_a_message_prints_as_its_speaker_and_its_content() -> None:
    assert str(Message("6", role="SimpleAgent")) == "SimpleAgent: 6"


def test_classes_and_objects_become_addresses() -> None:
    message = Message("x", cause_by=Write, sent_from=Writer(name="Ann"), send_to=[Writer, "Bob"])
    assert message.cause_by == WRITE
    assert message.sent_from == "Ann"
    assert message.send_to == {WRITER, "Bob"}
    assert Message("x", cause_by=Write()).cause_by == WRITE


def test_routing_fields_that_are_assigned_later_become_addresses_when_routed() -> None:
    message = Message("x")
    message.cause_by, message.send_to = Write, Writer(name="Ann")
    message.route()
    assert (message.cause_by, message.send_to) == (WRITE, {"Ann"})


def test_none_in_a_routing_field_means_its_default() -> None:
    message = Message("x", cause_by=None, sent_from=None, send_to=None)
    assert (message.cause_by, message.sent_from, message.send_to) == ("", "", {ALL})


def test_an_action_class_may_state_its_address() -> None:
    assert address_of(UserRequirement) == address_of(UserRequirement()) == USER_REQUIREMENT


def test_one_thing_or_several_can_be_addressed() -> None:
    assert addresses_of("Ann") == {"Ann"}
    assert addresses_of(Write) == {WRITE}
    assert addresses_of({"Ann", Write}) == {"Ann", WRITE}
    assert addresses_of([]) == frozenset()


def test_content_is_text() -> None:
    """Wart 10: a dict from an action failed far from its cause."""
    with pytest.raises(UsageError, match=r"wants a str, got \{'a': 1\}.*instruct_content"):
        Message({"a": 1})  # type: ignore[arg-type]


def test_content_may_be_a_subclass_of_str() -> None:
    class Colour(enum.StrEnum):
        RED = "red"

    assert str(Message(Colour.RED)) == "user: red"


def test_as_message_takes_text_and_messages_only() -> None:
    assert as_message("hi").content == "hi"
    with pytest.raises(UsageError, match="Expected a str or a `Message`, got 5"):
        as_message(5)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("label", "sent"), [("assistant", "assistant"), ("tool", "tool"), ("SimpleAgent", "user")]
)
def test_a_label_that_chat_apis_do_not_know_is_sent_as_user(label: str, sent: str) -> None:
    """`Message(role=self.name)` of the tutorial would be refused by every API."""
    assert Message("x", role=label).api_role == sent
