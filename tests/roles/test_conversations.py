"""What a role's conversations with its model are made of, and what of them is recorded."""

from __future__ import annotations

from rolecraft import Action, Environment, Message, Role, ScriptedModel
from rolecraft.messages import ToolCall
from rolecraft.models import Completion
from rolecraft.trajectories import Usage


class Ask(Action):
    async def run(self) -> str:
        return await self.ask("How?")


def test_the_prompt_is_made_of_the_fields_that_are_set() -> None:
    role = Role(
        name="Ann", profile="a cook", goal="to feed all", constraints="no nuts", desc="Be kind."
    )
    assert role.system_prompt == (
        "You are Ann, a cook.\nYour goal: to feed all.\nConstraints: no nuts.\nBe kind."
    )
    assert Role(name="Ann").system_prompt == ""
    assert Role(profile="a cook", system="Cook.").system_prompt == "Cook."


async def test_a_call_is_recorded_with_everything_needed_to_ask_it_again() -> None:
    call = ToolCall("boil", {"minutes": 3}, id="c1", repairs=("trailing comma",))
    answer = Completion(
        text="Boil it.",
        reasoning="Eggs are best boiled.",
        tool_calls=[call],
        usage=Usage(7, 2, 0.01),
        finish_reason="tool_calls",
    )
    role = Role(name="Ann", system="Cook.", actions=[Ask], model=ScriptedModel([answer]))
    await role.run("an egg")
    _, action, model_call, thought, _ = role.trajectory.events
    assert (model_call.content, model_call.cause, model_call.usage) == (
        "Boil it.", action.seq, Usage(7, 2, 0.01),
    )  # fmt: skip
    assert model_call.data == {
        "session": "Ann/1/1",
        "model": "scripted",
        "system": "Cook.",
        "messages": [{"role": "user", "content": "How?"}],
        "finish_reason": "tool_calls",
        "tool_calls": [
            {
                "name": "boil",
                "arguments": {"minutes": 3},
                "id": "c1",
                "repairs": ["trailing comma"],
            }
        ],
    }
    assert (thought.kind, thought.content, thought.cause) == (
        "thought", "Eggs are best boiled.", model_call.seq,
    )  # fmt: skip


async def test_only_what_is_new_is_recorded_of_a_conversation() -> None:
    role = Role(system="Cook.", model=ScriptedModel(["a", "b"]))
    session = role.open_session()
    await role.ask("one", session=session)
    await session.generate([Message("two", role="Ann"), Message("done", role="tool")])
    first, second = role.trajectory.of("model_call")
    assert first.data["system"] == "Cook."
    assert "system" not in second.data
    assert second.data["messages"] == [
        {"role": "user", "content": "two"},
        {"role": "tool", "content": "done"},
    ]


def test_seeds_depend_on_environment_role_and_number_of_the_conversation() -> None:
    def seeds(seed: int, *names: str) -> list[int]:
        roles = [Role(name=name, model=ScriptedModel()) for name in names]
        Environment(roles, seed=seed)
        return [role.open_session().seed for role in roles for _ in range(2)]

    assert seeds(1, "a", "b") == seeds(1, "a", "b")
    assert len({*seeds(1, "a", "b"), *seeds(2, "a", "b")}) == 8
    assert seeds(1, "b")[0] == seeds(1, "a", "b")[2]  # whoever else is there
