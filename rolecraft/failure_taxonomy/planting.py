"""Planted failures: runs whose failures are known because somebody wrote them into a script.

A detector is only as good as the runs on which it has been measured. Here a script says who does
what in which order; ordinary roles play it in an ordinary environment, so that the trajectory is
one that the runtime really writes. `Score` then says how often a detector found what was planted
and how often it saw what was not.

    script = Script(
        [
            Turn("coder", "WriteCode", does=[Make("a.py", "print(1)")], says="Done."),
            Turn("tester", "RunTests", does=[Check("a.py", True)], says="All pass."),
        ],
        goal={"artifacts": ["a.py"]},
    )
    trajectory = await script.play()
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, Literal, Protocol

from rolecraft.actions import Action
from rolecraft.environments import Environment
from rolecraft.errors import UsageError
from rolecraft.failure_taxonomy.detectors import Detector
from rolecraft.messages import ALL, FINISH, USER, Message
from rolecraft.roles import Role
from rolecraft.trajectories.events import Artifact, Event, EventKind, StopReason
from rolecraft.trajectories.trajectory import Trajectory


class Deed(Protocol):
    """What a role can do in its turn; one of your own has this method."""

    def do(self, role: Role) -> None: ...


@dataclass(frozen=True, slots=True)
class Use(Deed):
    """A tool is called and answers; with `result=None` it never does."""

    tool: str
    arguments: dict[str, Any] = field(default_factory=dict)
    result: str | None = ""
    ok: bool = True

    def do(self, role: Role) -> None:
        data = {"tool": self.tool, "arguments": self.arguments}
        call = role._write(Event("tool_call", data=data, cause=role._cause()))
        if self.result is not None:
            ok = {"ok": self.ok}
            role._write(Event("tool_result", content=self.result, data=ok, cause=call))


@dataclass(frozen=True, slots=True)
class Make(Deed):
    """An artifact is written."""

    name: str
    content: str

    def do(self, role: Role) -> None:
        made = Artifact(self.name, sha256(self.content.encode()).hexdigest())
        role._write(Event("artifact", artifact=made, cause=role._cause()))


@dataclass(frozen=True, slots=True)
class Check(Deed):
    """Something is checked; `passed` is None if the check came to no result."""

    target: str
    passed: bool | None

    def do(self, role: Role) -> None:
        data = {"target": self.target, "passed": self.passed}
        role._write(Event("verify", data=data, cause=role._cause()))


@dataclass(frozen=True, slots=True)
class Swap(Deed):
    """The role replaces its action list."""

    actions: tuple[str, ...]

    def do(self, role: Role) -> None:
        role.set_actions([Planted(name=name) for name in self.actions])


@dataclass(frozen=True, slots=True)
class Note(Deed):
    """Any other event of the role: a `thought`, a `model_call`, a `truncate`."""

    kind: EventKind
    content: str = ""
    data: dict[str, Any] = field(default_factory=dict)

    def do(self, role: Role) -> None:
        role._write(Event(self.kind, content=self.content, data=self.data, cause=role._cause()))


@dataclass(frozen=True, slots=True)
class Turn:
    """One action of a role, or (with `role="user"`) something the user says.

    `says=None`: nothing is said, so only the same role can go on. `together`: in the same round
    as the turn before it. `finishes`: what is said asks the environment to end the run.
    """

    role: str
    action: str = "Work"
    does: Sequence[Deed] = ()
    says: str | None = None
    to: str = ALL
    fields: dict[str, Any] = field(default_factory=dict)
    together: bool = False
    finishes: bool = False


@dataclass(frozen=True, slots=True)
class Watched:
    """What the environment verified about turn number `turn` after the run."""

    turn: int
    data: dict[str, Any]
    kind: Literal["verify", "signal"] = "verify"
    role: str = "environment"


@dataclass(slots=True, kw_only=True)
class Script:
    """A run as it is to be played. `stop` is what the run ends with; None: it never ends."""

    turns: Sequence[Turn] = field(kw_only=False)
    goal: Any = None
    constraints: list[dict[str, Any]] | None = None
    watched: Sequence[Watched] = ()
    stop: StopReason | None = "idle"
    silent: Sequence[str] = ()
    """Roles that are there and never have a turn."""
    about: dict[str, Any] = field(default_factory=dict)
    """More for the header: a task, an outcome."""
    may: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """The names of a role's actions, as the header lists them."""
    described: Mapping[str, dict[str, Any]] = field(default_factory=dict)
    """What the header says of a role besides: `profile`, `constraints`, …"""
    may_finish: Sequence[str] | None = None

    async def play(self) -> Trajectory:
        """Play it; the trajectory. Raises `UsageError` if a turn could not be played."""
        return await _Stage(self).play()


class Planted(Action):
    """Plays the turn of its role."""

    async def run(self, **fields: Any) -> Message | None:
        player = self.role
        assert isinstance(player, Player)
        turn = player.turn
        for deed in turn.does:
            deed.do(player)
        if turn.says is None:
            return None
        kind = FINISH if turn.finishes else ""
        return Message(turn.says, player.name, cause_by=kind, send_to=turn.to)


class Player(Role):
    """A role that plays its turns of a script."""

    actions = (Planted,)
    watch = (Planted, USER, FINISH)
    stage: Any = None
    turn: Any = None

    async def _think(self) -> bool:
        self.turn = self.stage.next_turn(self.name)
        if self.turn is None:
            return False
        self.set_todo(Planted(name=self.turn.action))
        return True

    async def _act(self) -> Message | None:
        todo = self.rc.todo
        assert isinstance(todo, Planted)
        message = await todo.run(**self.turn.fields)
        if message is not None:
            self.stage.said[id(self.turn)] = message
        return message


class _Stage:
    """Plays one script: keeps the turns in order, a group of them a round."""

    def __init__(self, script: Script) -> None:
        self.script = script
        about = {**script.about, "goal": script.goal, "constraints": script.constraints}
        self.env = Environment(
            about={name: value for name, value in about.items() if value},
            may_finish=script.may_finish,
        )
        cast = [turn.role for turn in script.turns if turn.role != USER]
        for name in dict.fromkeys([*cast, *script.silent]):
            listed = [Planted(name=action) for action in script.may.get(name, ("Planted",))]
            said = script.described.get(name, {})
            self.env.add_role(Player(name=name, stage=self, actions=listed, **said))
        self.left: list[Turn] = []
        self.groups: list[list[Turn]] = []
        self.round = -1
        self.said: dict[int, Message] = {}

    async def play(self) -> Trajectory:
        turns = list(self.script.turns)
        if not turns or turns[0].role != USER:
            turns.insert(0, Turn(USER, says="Please do it."))
        reason: StopReason = "idle"
        while turns:
            request = turns.pop(0)
            end = next((at for at, t in enumerate(turns) if t.role == USER), len(turns))
            self.groups, turns = _rounds(turns[:end]), turns[end:]
            text = Message(request.says or "", cause_by=USER, sent_from=USER, send_to=request.to)
            self.env.publish_message(text)
            cut = self.script.stop == "rounds" and not turns
            reason = await self.env.run(rounds=len(self.groups) if cut else None)
            if self.groups or self.left:
                waiting = self.left or self.groups[0]
                raise UsageError(f"No message woke a role for its turn: {waiting!r}.")
        self._note()
        if self.script.stop is not None:
            self.env.stop("rounds" if reason == "rounds" else self.script.stop)
        self.env.close()
        return self.env.trajectory

    def next_turn(self, role: str) -> Turn | None:
        """The next turn of `role` in this round, or None."""
        if self.env.rounds != self.round:
            self.round = self.env.rounds
            if self.left:
                raise UsageError(f"No message woke a role in time for its turn: {self.left!r}.")
            if self.groups:
                self.left = self.groups.pop(0)
        for turn in self.left:
            if turn.role == role:
                self.left = [other for other in self.left if other is not turn]
                return turn
        return None

    def _note(self) -> None:
        for watched in self.script.watched:
            message = self.said.get(id(self.script.turns[watched.turn]))
            cause = message.event if message is not None else None
            self.env.record(
                Event(watched.kind, role=watched.role, data=dict(watched.data), cause=cause)
            )


def _rounds(turns: Iterable[Turn]) -> list[list[Turn]]:
    """Which turns are played in one round: those of one role in a row, and those `together`."""
    rounds: list[list[Turn]] = []
    for turn in turns:
        if rounds and (turn.together or turn.role == rounds[-1][-1].role):
            rounds[-1].append(turn)
        else:
            rounds.append([turn])
    return rounds


@dataclass(slots=True)
class Score:
    """How a detector did on runs of which the truth is known.

    `missed` and `invented` name the runs on which it was wrong.
    """

    planted: int = 0
    found: int = 0
    clean: int = 0
    missed: list[str] = field(default_factory=list)
    invented: list[str] = field(default_factory=list)

    @property
    def recall(self) -> float:
        """Share of the planted failures that were found; 1 if none was planted."""
        return self.found / self.planted if self.planted else 1.0

    @property
    def false_positives(self) -> float:
        """Share of the runs without the failure in which it was seen all the same."""
        return len(self.invented) / self.clean if self.clean else 0.0

    @property
    def precision(self) -> float:
        """Share of the failures seen that were there; 1 if none was seen."""
        seen = self.found + len(self.invented)
        return self.found / seen if seen else 1.0

    @property
    def recall_interval(self) -> tuple[float, float]:
        """Where the recall lies with 95 % confidence, if runs were drawn independently."""
        return wilson(self.found, self.planted)

    @property
    def false_positives_interval(self) -> tuple[float, float]:
        """Where the share of false positives lies with 95 % confidence."""
        return wilson(len(self.invented), self.clean)

    def add(
        self, detector: Detector, mode: str, trajectory: Trajectory, *, planted: bool, name: str
    ) -> None:
        """Have `detector` look for `mode` in a run, and count the outcome."""
        said = detector.judge(trajectory)
        seen = any(f.mode == mode and f.verdict == "present" for f in said)
        if planted:
            self.planted += 1
            self.found += seen
            if not seen:
                self.missed.append(name)
        else:
            self.clean += 1
            if seen:
                self.invented.append(name)


def wilson(hits: float, total: int, *, z: float = 1.959964) -> tuple[float, float]:
    """Wilson's score interval of a share (E. B. Wilson, 1927); `z` 1.96 is 95 % confidence.

    It stays within 0 and 1 and has a width also where no run, or every run, is a hit. Nothing is
    known of a share of no runs: then it is (0, 1).
    """
    if total == 0:
        return 0.0, 1.0
    share, spread = hits / total, z * z / total
    middle = (share + spread / 2) / (1 + spread)
    half = z / (1 + spread) * ((share * (1 - share) + spread / 4) / total) ** 0.5
    return max(0.0, middle - half), min(1.0, middle + half)
