"""Planted resets, and beginnings that have a cause or only look like one."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from rolecraft.failure_taxonomy.detectors import Reset
from rolecraft.failure_taxonomy.planting import Make, Score, Script, Swap, Turn
from rolecraft.roles import Role
from rolecraft.trajectories import Event, Trajectory


@dataclass(frozen=True, slots=True)
class Forget:
    """The role's memory is cleared, by the program or by itself."""

    def do(self, role: Role) -> None:
        role._write(Event("reset"))


def opening(draw: Any) -> str:
    """A first turn of some length."""
    return f"{draw.say()} {draw.say()} So let us first look at {draw.file()}, then decide."


# --- the dialogue begins anew -----------------------------------------------------------------


def memory_cleared_in_the_middle(draw: Any) -> Script:
    """A role that has worked knows nothing any more, and nobody has said why."""
    one, two = draw.role(), draw.role()
    return Script(
        [
            Turn(one, "Write", does=[Make(draw.file(), draw.say())], says=draw.say()),
            *draw.chatter(one, two),
            Turn(one, "Write", does=[Forget()], says=draw.say()),
            Turn(two, "Read", says=draw.say()),
        ]
    )


def all_memories_cleared(draw: Any) -> Script:
    """Two roles are cleared one after the other: one reset."""
    one, two = draw.role(), draw.role()
    return Script(
        [
            Turn(one, "Plan", says=draw.say()),
            Turn(two, "Do", says=draw.say()),
            Turn(one, "Plan", does=[Forget()], says=draw.say()),
            Turn(two, "Do", does=[Forget()], says=draw.say()),
        ]
    )


def first_turn_again(draw: Any) -> Script:
    """After half of the work somebody opens the dialogue once more, in the same words."""
    one, two = draw.role(), draw.role()
    begin = Turn(one, "Open", says=opening(draw))
    work = [
        Turn(role, "Work", does=[draw.reading()], says=draw.say())
        for role in (two, one, two, one)[: draw.number(3, 4)]
    ]
    return Script([begin, *work, begin, Turn(two, "Work", says=draw.say())])


def first_turn_in_nearly_the_same_words(draw: Any) -> Script:
    """A model opens the dialogue once more, with a word less."""
    one, two = draw.role(), draw.role()
    said = opening(draw)
    work = [Turn(role, "Work", does=[draw.reading()], says=draw.say()) for role in (two, one, two)]
    again = said.replace("So let us first", "Let us first")
    return Script([Turn(one, "Open", says=said), *work, Turn(one, "Open", says=again)])


def begun_again_twice(draw: Any) -> Script:
    """The dialogue gets no further than its fourth turn."""
    one, two, three = draw.role(), draw.role(), draw.role()
    begin = Turn(one, "Open", says=opening(draw))
    turns: list[Turn] = []
    for _ in range(3):
        turns += [begin, *(Turn(role, "Work", says=draw.say()) for role in (two, three, two))]
    return Script(turns)


def forgets_after_a_check(draw: Any) -> Script:
    """A checked file, and then a role that is as new."""
    one, two = draw.role(), draw.role()
    return Script(
        [
            Turn(one, "Write", does=[Make(draw.file(), draw.say()), draw.writing()], says="Done."),
            Turn(two, "Check", does=[draw.reading()], says=draw.say(), to=one),
            Turn(one, "Write", does=[Forget(), draw.reading()], says=draw.say()),
        ]
    )


# --- it does not, or has a cause to -------------------------------------------------------------


def plain_work(draw: Any) -> Script:
    one, two = draw.role(), draw.role()
    turns = [
        Turn(draw.one_of(one, two), "Work", does=[draw.reading()], says=opening(draw))
        for _ in range(draw.number(3, 8))
    ]
    return Script(turns)


def another_request(draw: Any) -> Script:
    """The user wants something else, and the role begins with an empty memory."""
    one, two = draw.role(), draw.role()
    begin = Turn(one, "Open", says=opening(draw))
    forget = Turn(one, "Open", does=[Forget()], says=draw.say())
    work = [Turn(role, "Work", says=draw.say()) for role in (two, one, two)]
    return Script([begin, *work, Turn("user", says=draw.say()), draw.one_of(begin, forget)])


def said_why(draw: Any) -> Script:
    """A test refutes the plan; somebody says so, and they start over."""
    one, two = draw.role(), draw.role()
    begin = Turn(one, "Open", says=opening(draw))
    why = draw.one_of(
        "The test refuted this plan, we must start over.",
        "That cannot work. Let us begin again from scratch.",
        "I throw this draft away: it rests on a wrong number.",
    )
    work = [Turn(role, "Work", says=draw.say()) for role in (two, one, two)]
    return Script([begin, *work, Turn(two, "Refute", says=why), begin])


def cleared_before_it_did_anything(draw: Any) -> Script:
    """There is no progress that could be lost."""
    one, two = draw.role(), draw.role()
    return Script(
        [
            Turn(one, "Plan", says=draw.say()),
            Turn(two, "Do", does=[Swap(("Do",))], says=draw.say()),
            Turn(one, "Plan", says=draw.say()),
        ]
    )


def greeting_again(draw: Any) -> Script:
    """Short opening words come again by custom."""
    one, two = draw.role(), draw.role()
    greeting = Turn(one, "Open", says=draw.one_of("Good morning, everybody.", "Let us begin."))
    turns: list[Turn] = []
    for _ in range(draw.number(2, 3)):
        turns += [greeting, *(Turn(r, "Work", says=draw.say()) for r in (two, one, two))]
    return Script(turns)


def loop_of_two(draw: Any) -> Script:
    """Two say the same again and again: repetition, and no new beginning."""
    one, two = draw.role(), draw.role()
    return Script(
        [Turn(one, "Ask", says=opening(draw)), Turn(two, "Answer", says=opening(draw))] * 3
    )


def look_again_at_the_first_file(draw: Any) -> Script:
    """The first step is done again, in the course of the work."""
    one, two = draw.role(), draw.role()
    first = draw.reading()
    return Script(
        [
            Turn(one, "Look", does=[first], says=draw.say()),
            *(Turn(role, "Work", says=draw.say()) for role in (two, one, two)),
            Turn(one, "Look", does=[first], says=draw.say()),
        ]
    )


def opening_sent_to_another(draw: Any) -> Script:
    """The same briefing for each who comes in."""
    one, *others = (draw.role() for _ in range(4))
    brief = opening(draw)
    turns: list[Turn] = []
    for other in others:
        turns += [Turn(one, "Brief", says=brief, to=other)]
        turns += [Turn(other, "Work", says=draw.say(), to=one)]
    return Script(turns)


POSITIVE = [
    memory_cleared_in_the_middle,
    all_memories_cleared,
    first_turn_again,
    first_turn_in_nearly_the_same_words,
    begun_again_twice,
    forgets_after_a_check,
]
NEGATIVE = [
    plain_work,
    another_request,
    said_why,
    cleared_before_it_did_anything,
    greeting_again,
    loop_of_two,
    look_again_at_the_first_file,
    opening_sent_to_another,
]


async def test_resets_are_found_and_not_invented(
    measure: Callable[..., Awaitable[Score]], holds: Callable[[Score], None]
) -> None:
    holds(await measure(Reset(), "reset", positive=POSITIVE, negative=NEGATIVE))


async def test_what_is_cleared_together_is_one_reset(draw_of: Callable[[str], Any]) -> None:
    trajectory = await all_memories_cleared(draw_of("one")).play()
    assert len(Reset().judge(trajectory)) == 1


# --- logs ---------------------------------------------------------------------------------------


def chat(*said: tuple[str, str], **about: Any) -> Trajectory:
    """A chat log as an importer makes it."""
    events = [
        Event("message", role, text, to=("<all>",), seq=at, time=at)
        for at, (role, text) in enumerate(said)
    ]
    header = {"records": ["message", "tool_result"], "task": said[0][1], **about}
    return Trajectory("chat", header, events)


def talk(draw: Any, turns: int) -> list[tuple[str, str]]:
    return [(("solver", "checker")[at % 2], opening(draw)) for at in range(turns)]


async def test_a_task_that_is_put_again_after_progress_is_a_reset(
    draw_of: Callable[[str], Any],
) -> None:
    draw = draw_of("task")
    task = ("proxy", opening(draw))
    (finding,) = Reset().judge(chat(task, *talk(draw, 4), task, *talk(draw, 2)))
    assert finding.verdict == "present"
    assert finding.events[0] == 5
    (finding,) = Reset().judge(chat(task, *talk(draw, 1), task, *talk(draw, 2)))
    assert finding.verdict == "unknown"  # no progress


async def test_a_line_of_the_system_that_comes_again_is_a_set_up_only_if_it_says_so(
    draw_of: Callable[[str], Any],
) -> None:
    draw = draw_of("line")
    for line, verdict in (
        ("Initializing session 17 at 10:31", "present"),
        ("POST /v1/chat 200 OK", "unknown"),
    ):
        later = line.replace("17", "18").replace("31", "32")
        said = [("", line), *talk(draw, 4), ("", later), *talk(draw, 2)]
        (finding,) = Reset().judge(chat(*said))
        assert finding.verdict == verdict, line
