"""Who hears what: `cause_by` and watch, `send_to`, messages from outside."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rolecraft import Action, Environment, Message, Role, UserRequirement
from rolecraft.errors import DuplicateRole, UnknownName, UsageError
from rolecraft.messages import ALL, NOBODY, SELF, USER, USER_REQUIREMENT


class Write(Action):
    send_to: Any = ALL

    async def run(self) -> Message:
        return Message("text", send_to=self.send_to)


class Hear(Action):
    async def run(self) -> None:
        pass


class Writer(Role):
    actions = [Write]


class Listener(Role):
    actions = [Hear]
    watch = []


def heard(role: Role) -> list[str]:
    return [m.content for m in role.rc.memory.get() if m.sent_from != role.name]


async def play(*roles: Role, message: Message | str = "go", **options: Any) -> Environment:
    env = Environment(roles, **options)
    env.publish_message(message)
    await env.run()
    return env


# --- kinds of work ---------------------------------------------------------------------------


async def test_a_message_for_everyone_reaches_those_who_watch_its_kind_of_work() -> None:
    watcher, other = Listener(name="watcher", watch=[Write]), Listener(name="other", watch=[Hear])
    await play(Writer(), watcher, other)
    assert (heard(watcher), heard(other)) == (["text"], [])


async def test_the_user_is_watched_unless_a_role_says_otherwise() -> None:
    by_default, deaf = Role(name="a", actions=[Hear]), Listener(name="b")
    both = Listener(name="c", watch=[Write, UserRequirement])
    await play(by_default, deaf, both, Writer())
    assert [heard(role) for role in (by_default, deaf, both)] == [["go"], [], ["go", "text"]]


async def test_an_action_may_be_watched_by_its_dotted_path() -> None:
    watcher = Listener(watch=[f"{__name__}.Write"])
    await play(Writer(), watcher)
    assert heard(watcher) == ["text"]


@pytest.mark.parametrize("how", ["method", "attribute", "context"])
async def test_what_a_role_watches_can_change(how: str) -> None:
    watcher = Listener(name="watcher")
    env = await play(Writer(), watcher)
    if how == "method":
        watcher._watch([Write])
    elif how == "attribute":
        watcher.watch = [Write]
    else:
        watcher.rc.watch = [Write]
    env.publish_message("again")
    await env.run()
    assert heard(watcher) == ["text"]


async def test_two_roles_of_default_settings_do_not_wake_each_other() -> None:
    """Wart 11: a reply without `cause_by` became the user's and went to and fro for ever."""
    env = await play(Writer(name="a"), Writer(name="b"))
    assert env.rounds == 1


async def test_important_memory_is_what_the_role_watches() -> None:
    watcher = Listener(watch=[Write])
    await play(Writer(), watcher)
    watcher.rc.memory.add(Message("other", cause_by=Hear))
    assert [m.content for m in watcher.rc.important_memory] == ["text"]


# --- receivers -------------------------------------------------------------------------------


@pytest.mark.parametrize("receiver", ["Bob", Listener, Listener(name="Bob"), {"Bob", NOBODY}])
async def test_a_receiver_is_named_by_name_class_or_object(receiver: Any) -> None:
    bob = Listener(name="Bob")
    await play(Writer(actions=[Write(receiver)]), bob)
    assert heard(bob) == ["text"]


async def test_a_class_addresses_all_its_roles_but_the_sender() -> None:
    roles = [Listener(name="a"), Listener(name="b")]
    await play(*roles, message=Message("hi", send_to=Listener, sent_from="a"))
    assert [heard(role) for role in roles] == [[], ["hi"]]


async def test_who_is_addressed_hears_it_without_watching_and_only_once() -> None:
    watcher = Listener(name="Bob", watch=[Write])
    other = Listener(name="Carol")
    env = await play(Writer(actions=[Write({ALL, "Bob", "Carol"})]), watcher, other)
    assert (heard(watcher), heard(other)) == (["text"], ["text"])
    assert len(watcher.rc.news) == 1
    assert env.messages == 2


async def test_who_is_not_addressed_does_not_hear_it_although_watching() -> None:
    watcher = Listener(name="watcher", watch=[Write])
    await play(Writer(actions=[Write("Bob")]), Listener(name="Bob"), watcher)
    assert heard(watcher) == []


@pytest.mark.parametrize("receiver", [NOBODY, USER])
async def test_a_message_to_nobody_or_to_the_user_is_recorded_and_wakes_nobody(
    receiver: str,
) -> None:
    watcher = Listener(watch=[Write])
    env = await play(Writer(actions=[Write(receiver)]), watcher)
    assert heard(watcher) == []
    assert [e.content for e in env.trajectory.of("message")] == ["go", "text"]
    assert env.last_message.content == "text"


async def test_a_sender_does_not_hear_its_own_broadcast() -> None:
    """Wart 13: it came back into the sender's inbox and cost a round."""
    eager = Role(name="eager", actions=[Write], watch=[UserRequirement, Write])
    env = await play(eager)
    assert env.rounds == 1
    assert [m.content for m in eager.rc.memory.get()] == ["go", "text"]


@pytest.mark.parametrize("receiver", [SELF, "Ann"])
async def test_a_message_to_oneself_is_taken_up_in_the_next_round(receiver: str) -> None:
    class Note(Action):
        async def run(self, history: Any) -> Message | None:
            if len(history) > 1:
                return None
            return Message("remember", send_to=receiver)

    ann = Role(name="Ann", actions=[Note])
    env = await play(ann)
    assert env.rounds == 2
    assert [m.content for m in ann.rc.news] == ["remember"]


async def test_an_unknown_receiver_is_told_to_the_sender_with_the_known_ones() -> None:
    with pytest.raises(UnknownName) as caught:
        await play(Writer(name="Ann", actions=[Write("Bop")]), Listener(name="Bob"))
    text = str(caught.value)
    assert "Receiver 'Bop' is not known. Did you mean 'Bob'?" in text
    for known in ("`Ann`", "`Bob`", "`<all>`", "`user`"):
        assert known in text
    assert caught.value.__notes__ == ["raised in role 'Ann'", "in round 1, role 'Ann'"]


def test_an_unknown_receiver_from_outside_is_refused_and_nothing_is_recorded() -> None:
    env = Environment([Listener(name="Bob")])
    with pytest.raises(UnknownName, match="Receiver 'Bop'"):
        env.publish_message(Message("x", send_to=["Bob", "Bop"]))
    assert env.trajectory.events == []
    assert env.is_idle


# --- from outside ----------------------------------------------------------------------------


def test_a_string_from_outside_is_the_users() -> None:
    message = Environment([Listener()]).publish_message("go")
    assert (message.sent_from, message.cause_by, message.id) == (USER, USER_REQUIREMENT, "user>1")


async def test_a_message_from_outside_may_speak_for_a_role() -> None:
    """Its id is not mistaken for that of a message which the role says later."""
    writer, watcher = Writer(name="Ann"), Listener(watch=[Write])
    env = Environment([writer, watcher])
    env.publish_message(Message("before", cause_by=Write, sent_from="Ann"))
    env.publish_message("go")
    await env.run()
    assert heard(watcher) == ["before", "text"]


async def test_equal_texts_are_different_messages() -> None:
    """MetaGPT's memory dropped the second as a duplicate."""
    listener = Role(name="Bob", actions=[Hear])
    env = Environment([listener])
    for _ in range(3):
        env.publish_message("same")
    await env.run()
    assert heard(listener) == ["same"] * 3


async def test_a_message_published_again_is_a_new_message() -> None:
    listener = Role(name="Bob", actions=[Hear])
    env = Environment([listener])
    message = env.publish_message("again")
    await env.run()
    env.publish_message(message)
    await env.run()
    assert heard(listener) == ["again", "again"]
    assert [e.data["id"] for e in env.trajectory.of("message")] == ["user>1", "user>2"]


async def test_what_is_published_during_a_round_is_delivered_at_its_end() -> None:
    bob = Role(name="Bob", actions=[Hear])

    class Interrupt(Action):
        async def run(self) -> str:
            env.publish_message(Message("from outside", send_to="Bob"))
            assert heard(bob) == []
            return "said"

    env = Environment([Role(name="Ann", actions=[Interrupt]), bob])
    env.publish_message("go")
    await env.run()
    assert heard(bob) == ["go", "from outside"]
    contents = [e.content for e in env.trajectory.of("message")]
    assert contents == ["go", "from outside", "said"]  # recorded when, delivered later


async def test_a_role_may_speak_between_rounds() -> None:
    watcher = Listener(watch=[Write])
    ann = Role(name="Ann", actions=[Hear])
    env = Environment([ann, watcher])
    said = ann.publish_message(Message("by the way", cause_by=Write))
    assert (said.id, said.event, env.messages) == ("Ann:1", 0, 1)
    await env.run()
    assert heard(watcher) == ["by the way"]


async def test_a_role_that_speaks_out_of_turn_is_heard_after_the_round() -> None:
    bob, watcher = Listener(name="Bob"), Listener(name="watcher", watch=[Write])

    class Prompt(Action):
        async def run(self) -> str:
            bob.publish_message(Message("out of turn", cause_by=Write))
            assert watcher.is_idle
            return "prompted"

    await play(Role(name="Ann", actions=[Prompt]), bob, watcher)
    assert heard(watcher) == ["out of turn"]


async def test_a_role_of_an_environment_may_be_run_directly() -> None:
    watcher, ann = Listener(watch=[Write]), Writer(name="Ann")
    env = Environment([ann, watcher])
    assert (await ann.run("go")).content == "text"
    await env.run()
    assert heard(watcher) == ["text"]
    assert [e.content for e in env.trajectory.of("message")] == ["go", "text"]
    with pytest.raises(UsageError, match="Role 'Ann' acts in an environment; see its trajectory"):
        _ = ann.trajectory


async def test_a_role_is_not_run_directly_while_a_round_is_on() -> None:
    bob = Listener(name="Bob")

    class Push(Action):
        async def run(self) -> None:
            await bob.run("now!")

    with pytest.raises(UsageError, match=r"Role 'Bob' cannot be run while .* send it a message"):
        await play(Role(actions=[Push]), bob)


# --- roles -----------------------------------------------------------------------------------


def test_two_roles_of_one_name_are_refused() -> None:
    """Wart 18: the first was dropped, still got messages and never acted."""
    with pytest.raises(DuplicateRole, match=r"Two roles are named 'Writer'.*Writer\(name='...'\)"):
        Environment([Writer(), Writer()])


@pytest.mark.parametrize("name", [USER, ALL, NOBODY, SELF])
def test_a_role_cannot_have_the_name_of_an_address(name: str) -> None:
    with pytest.raises(UsageError, match=rf"No role can be named '{name}'.*another name"):
        Environment([Listener(name=name)])


def test_a_class_is_no_role() -> None:
    with pytest.raises(UsageError, match=r"holds roles, got .*: add `Writer\(\)`"):
        Environment([Writer])  # type: ignore[list-item]


def test_a_role_is_in_one_environment() -> None:
    writer = Writer()
    Environment([writer])
    with pytest.raises(UsageError, match="Role 'Writer' is in another environment"):
        Environment([writer])


async def test_a_role_that_joins_later_hears_what_is_said_from_then_on() -> None:
    env = await play(Writer())
    late = Listener(name="late", watch=[Write])
    await late.run("practice")  # on its own, before
    env.add_role(late)
    env.publish_message("again")
    await env.run()
    assert heard(late) == ["practice", "text"]
    assert "practice" not in [e.content for e in env.trajectory.of("message")]


def test_a_role_is_found_by_name() -> None:
    env = Environment([Writer(name="Ann")])
    assert env.get_role("Ann") is env.roles["Ann"]
    with pytest.raises(UnknownName, match=r"Role 'Anna' is not known\. Did you mean 'Ann'"):
        env.get_role("Anna")


@given(
    watches=st.lists(st.sets(st.sampled_from(["x", "y"])), min_size=1, max_size=6),
    messages=st.lists(
        st.tuples(
            st.sampled_from(["x", "y", "z"]),
            st.sets(st.sampled_from([ALL, USER, "0", "1", "2", "K", "gone"]), min_size=1),
        ),
        max_size=5,
    ),
)
def test_receivers_are_those_who_watch_and_those_who_are_addressed_in_the_order_of_roles(
    watches: list[set[str]], messages: list[tuple[str, set[str]]]
) -> None:
    """Whatever was delivered before, also when a role joins and another watches something else."""
    env = Environment([_Addressed(name=str(at), watch=list(w)) for at, w in enumerate(watches)])
    for step, (cause_by, send_to) in enumerate(messages):
        message = Message("hi", cause_by=cause_by, sent_from="outside", send_to=send_to)
        known = {address for role in env.roles.values() for address in role.addresses}
        if not send_to <= known | {ALL, USER}:
            with pytest.raises(UnknownName):
                env.publish_message(message)
            continue
        before = {name: len(role.rc.inbox) for name, role in env.roles.items()}
        env.publish_message(message)
        heard = [n for n, role in env.roles.items() if len(role.rc.inbox) > before[n]]
        assert heard == [
            name
            for name, role in env.roles.items()
            if (ALL in send_to and cause_by in role.rc.watch) or send_to & role.addresses
        ]
        assert [role.name for role in env._receivers(message)] == heard
        env.add_role(_Addressed(name=f"late {step}", watch=[cause_by]))
        next(iter(env.roles.values())).rc.watch = [cause_by]


class _Addressed(Role):
    @property
    def addresses(self) -> frozenset[str]:
        return super().addresses | {"K"}


async def test_an_address_is_looked_up_once_however_many_messages_are_sent() -> None:
    """With 200 roles, each addressed message used to cost 400 looks at addresses."""
    looks = 0

    class Looked(Role):
        @property
        def addresses(self) -> frozenset[str]:
            nonlocal looks
            looks += 1
            return super().addresses

    env = Environment([Looked(name=name) for name in "abc"])
    for _ in range(10):
        env.publish_message(Message("hi", send_to="b"))
    assert looks == 3
    assert len(env.roles["b"].rc.inbox) == 10
