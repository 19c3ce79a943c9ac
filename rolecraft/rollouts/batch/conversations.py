"""From a trajectory to the conversations that models had in it: what training output is made of.

Invariant: every answer of a model is in exactly one conversation, in its place, with the reasoning
and the tool calls that it came with; or the trajectory is refused with a `Lost`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from rolecraft.errors import RolecraftError
from rolecraft.rollouts.batch.reasoning import reasoning_of
from rolecraft.trajectories.events import Event
from rolecraft.trajectories.trajectory import Trajectory


class Lost(RolecraftError):
    """An answer of the trajectory has no place in a conversation."""


@dataclass(slots=True)
class Turn:
    """One message of a conversation."""

    role: str
    """`system`, `user`, `assistant` or `tool`."""
    content: str = ""
    reasoning: str = ""
    tool_calls: list[dict[str, Any]] = field(default_factory=list)
    """Each has `id`, `name` and `arguments`, an object; and `raw`, where the model wrote none."""
    tool_call_id: str = ""
    name: str = ""
    """Of the tool whose result it is."""
    sampled: bool = False
    """Whether the model gave it now; a role can also be told its own words of before."""
    thought: bool = False
    """Of an answer: whether there was reasoning, also where the provider kept its text back."""

    def to_dict(self) -> dict[str, Any]:
        return {name: value for name in Turn.__slots__ if (value := getattr(self, name))}


@dataclass(slots=True)
class Conversation:
    """One session of one role with one model."""

    session: str
    role: str
    model: str
    turns: list[Turn] = field(default_factory=list)
    tools: list[dict[str, Any]] = field(default_factory=list)
    """What the model was offered: `name`, `description` and `parameters` of each."""
    invented: list[str] = field(default_factory=list)
    """Names that it called and was not offered."""

    @property
    def answers(self) -> list[Turn]:
        return [turn for turn in self.turns if turn.sampled]

    def to_dict(self) -> dict[str, Any]:
        whole = {name: getattr(self, name) for name in Conversation.__slots__}
        return whole | {"turns": [turn.to_dict() for turn in self.turns]}

    @classmethod
    def from_dict(cls, whole: Mapping[str, Any]) -> Conversation:
        made = cls(**{**whole, "turns": []})
        made.turns = [Turn(**turn) for turn in whole["turns"]]
        return made


def conversations(trajectory: Trajectory) -> list[Conversation]:
    """The conversations of a trajectory, in the order of their first answers. Raises `Lost`."""
    thoughts = {
        event.cause: event.content for event in trajectory.of("thought") if event.cause is not None
    }
    found: dict[str, Conversation] = {}
    answers = 0
    for event in trajectory.of("model_call"):
        answers += 1
        session = event.data.get("session") or f"{event.role}/{answers}"
        model = str(event.data.get("model", ""))
        talk = found.setdefault(session, Conversation(session, event.role, model))
        _add(talk, event, thoughts.get(event.seq, ""))
    placed = sum(len(talk.answers) for talk in found.values())
    if placed != answers:
        raise Lost(f"The trajectory has {answers} answers of models, the conversations {placed}.")
    return list(found.values())


def _add(talk: Conversation, event: Event, thought: str) -> None:
    data = event.data
    if data.get("system"):
        talk.turns.append(Turn("system", data["system"]))
    open_calls = _unanswered(talk)
    for message in data.get("messages", ()):
        turn = Turn(message["role"], message["content"])
        if turn.role == "tool" and open_calls:
            # Every call has one result, in the order of the calls.
            call = open_calls.pop(0)
            turn.tool_call_id, turn.name = call["id"], call["name"]
        talk.turns.append(turn)
    if "tools" in data:
        talk.tools = data["tools"]
    offered = {tool["name"] for tool in talk.tools}
    seen = reasoning_of(event, thought)
    answer = Turn("assistant", seen.content, seen.reasoning, sampled=True, thought=seen.thought)
    for number, call in enumerate(data.get("tool_calls", ())):
        name = call.get("name", "")
        made = {
            "id": call.get("id") or f"call_{len(talk.turns)}_{number}",
            "name": name,
            "arguments": call.get("arguments", {}),
        }
        if call.get("incomplete"):
            made["raw"] = call.get("raw", "")
        answer.tool_calls.append(made)
        if name not in offered:
            talk.invented.append(name)
    talk.turns.append(answer)


def _unanswered(talk: Conversation) -> list[dict[str, Any]]:
    """The calls of the last answer."""
    for turn in reversed(talk.turns):
        if turn.role == "assistant":
            return list(turn.tool_calls)
    return []
