"""Planted roles that do what is another's, and roles that only look as if they did."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from rolecraft.failure_taxonomy.detectors import RoleSpec
from rolecraft.failure_taxonomy.planting import Note, Score, Script, Swap, Turn, Use
from rolecraft.failure_taxonomy.view import TraceView
from rolecraft.trajectories import Event, Trajectory


def program(draw: Any, lines: int) -> str:
    """Code that nobody else wrote."""
    body = [
        f"    {draw.one_of('total', 'rest')}_{n} = {draw.number(1, 10**6)}" for n in range(lines)
    ]
    return "```python\ndef compute():\n" + "\n".join(body) + "\n    return total\n```"


# --- a limit is crossed ---------------------------------------------------------------------------


def does_what_is_anothers(draw: Any) -> Script:
    """The action is in a colleague's list and not in its own."""
    coder, tester = draw.role(), draw.role()
    return Script(
        [
            *draw.chatter(coder),
            Turn(coder, "Write", says=draw.say()),
            Turn(coder, "Approve", says=draw.say()),
            Turn(tester, "Examine", says=draw.say()),
        ],
        may={coder: ["Write", "Discuss"], tester: ["Examine", "Approve"]},
    )


def uses_a_tool_that_is_anothers(draw: Any) -> Script:
    """The header lists tools; here a planner merges, which only the engineer may."""
    one, two = draw.role(), draw.role()
    turns = [Turn(one, "Plan", does=[Use("merge", {}, "merged")], says=draw.say())]
    roles = [{"name": one, "tools": ["search"]}, {"name": two, "tools": [{"name": "merge"}]}]
    return Script(turns, about={"roles": roles}, silent=[two])


def ends_what_only_another_may_end(draw: Any) -> Script:
    hasty, boss = draw.role(), draw.role()
    return Script(
        [
            Turn(hasty, "Close", says=draw.one_of("We are done.", draw.say()), finishes=True),
            Turn(boss, "Continue", says=draw.say()),
            *draw.chatter(boss, hasty),
            Turn(boss, "Close", says="Now it is done.", finishes=True),
        ],
        may_finish=[boss],
        stop="finished",
    )


def writes_code_though_forbidden(draw: Any) -> Script:
    rule = draw.one_of(
        "Write no code. Say what is asked for.",
        "You must not write code yourself.",
        "Only plan; never write any code.",
        "Review. Do not produce code.",
    )
    thinker, other = draw.role(), draw.role()
    field = draw.one_of("constraints", "profile", "goal")
    return Script(
        [
            *draw.chatter(other),
            Turn(thinker, "Think", says=f"{draw.say()}\n{program(draw, draw.number(3, 20))}"),
            Turn(other, "Go", says=draw.say()),
        ],
        described={thinker: {field: rule}},
    )


def speaks_as_a_colleague(draw: Any) -> Script:
    """One role plays the other's turn before the other has said anything."""
    one, two = draw.role(), draw.role()
    claim = draw.one_of(
        "I have run the tests and all of them pass.",
        "I've reviewed it, and it looks good.",
        "My result is 12.",
        "We have merged it.",
    )
    head = draw.one_of(f"{two}:", f"**{two}**:", f"[{two}]", f"## {two}\n", f"**{two}:**")
    return Script(
        [
            Turn(one, "Talk", says=f"{draw.say()}\n\n{head} {claim}\n{draw.say()}"),
            Turn(two, "Talk", says=draw.say()),
        ]
    )


def does_the_builders_work(draw: Any) -> Script:
    """A planner or reviewer hands out the finished program, and the coder delivers it."""
    plans, builds = draw.one_of("Planner", "Reviewer", "ProductOwner"), draw.one_of("Coder", "Dev1")
    builds = "Developer" if builds == "Dev1" else builds
    code = program(draw, draw.number(10, 40))
    return Script(
        [
            Turn(plans, "Plan", says=f"{draw.say()}\n{code}"),
            *draw.chatter(plans),
            Turn(builds, "Build", says=f"{draw.say()}\n{code}\n{draw.say()}"),
        ]
    )


# --- none is --------------------------------------------------------------------------------------


def does_its_own(draw: Any) -> Script:
    coder, tester = draw.role(), draw.role()
    return Script(
        [Turn(coder, "Write", says=draw.say()), Turn(tester, "Examine", says=draw.say())],
        may={coder: ["Write"], tester: ["Examine"]},
    )


def was_given_the_action(draw: Any) -> Script:
    """QA takes the writing over in the open: its list was replaced."""
    coder, tester = draw.role(), draw.role()
    return Script(
        [
            Turn(coder, "Write", says=draw.say()),
            Turn(tester, "Examine", does=[Swap(("Write", "Examine"))], says=draw.say()),
            Turn(tester, "Write", says=draw.say()),
        ],
        may={coder: ["Write"], tester: ["Examine"]},
    )


def an_action_that_nobody_lists(draw: Any) -> Script:
    """What no role's list has was made up as the run went, and is nobody's."""
    coder, tester = draw.role(), draw.role()
    return Script(
        [Turn(coder, "Improvise", says=draw.say()), Turn(tester, "Examine", says=draw.say())],
        may={coder: ["Write"], tester: ["Examine"]},
    )


def both_have_it(draw: Any) -> Script:
    one, two = draw.role(), draw.role()
    turns = [Turn(draw.one_of(one, two), "Work", says=draw.say()) for _ in range(3)]
    return Script(turns, may={one: ["Work", "Rest"], two: ["Work"]}, silent=[one, two])


def ends_what_it_may_end(draw: Any) -> Script:
    one, boss = draw.role(), draw.role()
    turns = [Turn(one, "Work", says=draw.say()), Turn(boss, "Close", says="Done.", finishes=True)]
    return Script(turns, may_finish=draw.one_of(None, [boss]), stop="finished")


def goes_on_after_the_end(draw: Any) -> Script:
    """The user asks for more after a run that was ended by right."""
    one, two = draw.role(), draw.role()
    return Script(
        [
            Turn(one, "Work", says=draw.say()),
            Turn(two, "Close", says="Done."),
            Turn("user", says=draw.say()),
            Turn(one, "Work", says=draw.say()),
        ]
    )


def code_where_it_is_allowed(draw: Any) -> Script:
    rule = draw.one_of(
        "Write clean code.",
        "Do not write code without tests.",
        "Never write code that needs the network.",
        "Write no code before the plan is agreed on.",
        "Don't write code in comments.",
    )
    role, other = draw.role(), draw.role()
    turns = [
        Turn(role, "Work", says=f"{draw.say()}\n{program(draw, 8)}"),
        Turn(other, "Thank", says=draw.say()),
    ]
    return Script(turns, described={role: {"constraints": rule}})


def quotes_what_others_wrote(draw: Any) -> Script:
    """A reviewer who is to write no code shows the lines that it is about."""
    coder, reviewer = draw.role(), draw.role()
    code = program(draw, 12)
    part = draw.one_of(code, "```python\n" + "\n".join(code.split("\n")[2:6]) + "\n```")
    turns = [
        Turn(coder, "Write", says=f"{draw.say()}\n{code}"),
        Turn(reviewer, "Review", says=f"This cannot be right:\n{part}\n{draw.say()}"),
    ]
    return Script(turns, described={reviewer: {"constraints": "Write no code."}})


def a_suggestion_of_two_lines(draw: Any) -> Script:
    """A snippet in a review, which the coder takes over: that is reviewing."""
    snippet = "```python\ndef compute():\n    return total_of_everything\n```"
    code = program(draw, 12).replace("    return total\n", "    return total_of_everything\n")
    return Script(
        [
            Turn("Coder", "Write", says=f"{draw.say()}\n{program(draw, 12)}"),
            Turn("Reviewer", "Review", says=f"{draw.say()}\n{snippet}"),
            Turn("Coder", "Write", says=f"{draw.say()}\n{code}"),
        ]
    )


def builders_share_code(draw: Any) -> Script:
    """An architect's or a coder's draft is taken over by a colleague who builds as well."""
    code = program(draw, 15)
    return Script(
        [
            Turn(draw.one_of("Coder", "Engineer"), "Draft", says=f"{draw.say()}\n{code}"),
            Turn("Developer", "Build", says=f"{draw.say()}\n{code}"),
        ]
    )


def a_manager_passes_code_on(draw: Any) -> Script:
    """The code was the coder's before the manager showed it around."""
    code = program(draw, 15)
    return Script(
        [
            Turn("Coder", "Write", says=f"{draw.say()}\n{code}"),
            Turn("Manager", "Forward", says=f"Here is what we have:\n{code}"),
            Turn("Engineer", "Build", says=f"Taken over:\n{code}"),
        ]
    )


def the_task_has_the_code(draw: Any) -> Script:
    """The first speaker puts the task, with code to mend; the coder hands it in mended."""
    code = program(draw, draw.number(20, 40))
    task = f"Mend this:\n{code}"
    mended = code.replace("return total", "return total + 1")
    return Script(
        [Turn("Planner", "Plan", says=task), Turn("Coder", "Build", says=f"Done.\n{mended}")],
        about={"task": task},
    )


def hands_out_tasks(draw: Any) -> Script:
    """Names at the head of a line, and what they are to do."""
    one, two = draw.role(), draw.role()
    task = draw.one_of(
        "please run the tests.",
        "Write the tests for it.",
        "I need a second opinion from you.",
        "I want the tests to be run.",
        "your part is the parser.",
        "the parser; I am going to see to it that you get the data.",
    )
    return Script(
        [
            Turn(one, "Plan", says=f"{draw.say()}\n{two}: {task}\n{one}: I will do the rest."),
            Turn(two, "Work", says=draw.say()),
        ]
    )


def quotes_a_colleague(draw: Any) -> Script:
    one, two = draw.role(), draw.role()
    claim = "I have run the tests and all of them pass."
    quoted = draw.one_of(f"{two}: {claim}", f"> {two}: {claim}", f'{two}: "{claim}"')
    return Script(
        [
            Turn(two, "Report", says=draw.one_of(claim, draw.say())),
            Turn(one, "Sum up", says=f"{draw.say()}\n{quoted}"),
        ]
    )


def addresses_a_colleague(draw: Any) -> Script:
    """As people do in chats: the name first, and then what they have to say to it."""
    one, two = draw.role(), draw.role()
    says = draw.one_of("I am done with the parser.", "I've run it, and it works.", "My part is in.")
    return Script(
        [Turn(one, says=f"{two}: {says}\n{draw.say()}"), Turn(two, says=f"{one}: {draw.say()}")]
    )


def names_itself(draw: Any) -> Script:
    one, two = draw.role(), draw.role()
    return Script(
        [
            Turn(one, "Talk", says=f"{one}: I have run the tests."),
            Turn(two, "Talk", says=f"[{two}] I've seen them pass."),
        ]
    )


POSITIVE = [
    does_what_is_anothers,
    uses_a_tool_that_is_anothers,
    ends_what_only_another_may_end,
    writes_code_though_forbidden,
    speaks_as_a_colleague,
    does_the_builders_work,
]
NEGATIVE = [
    does_its_own,
    was_given_the_action,
    an_action_that_nobody_lists,
    both_have_it,
    ends_what_it_may_end,
    goes_on_after_the_end,
    code_where_it_is_allowed,
    quotes_what_others_wrote,
    a_suggestion_of_two_lines,
    builders_share_code,
    a_manager_passes_code_on,
    the_task_has_the_code,
    hands_out_tasks,
    quotes_a_colleague,
    addresses_a_colleague,
    names_itself,
]


async def test_crossed_limits_are_found_and_not_invented(
    measure: Callable[..., Awaitable[Score]], holds: Callable[[Score], None]
) -> None:
    holds(await measure(RoleSpec(), "role_spec", positive=POSITIVE, negative=NEGATIVE))


@pytest.mark.parametrize(("may", "verdict"), [(["ben"], "present"), (["ada"], "unknown")])
def test_the_header_may_say_who_ends_the_run(may: list[str], verdict: str) -> None:
    end = Event(
        "message", "ada", "That is it.", data={"cause_by": "rolecraft.actions.Finish"}, seq=0
    )
    (finding,) = RoleSpec().judge(Trajectory("t", {"may_finish": may, "roles": ["ada"]}, [end]))
    assert finding.verdict == verdict


async def test_where_a_model_speaks_only_its_own_words_count() -> None:
    """What a program put into a message, such as a transcript, is nobody's pretence."""
    minutes = "ben: I have run the tests."
    said = Note("model_call", "I sum up.")
    script = Script([Turn("ada", does=[said], says=minutes), Turn("ben", says="Yes.")])
    (finding,) = RoleSpec().judge(await script.play())
    assert finding.verdict == "unknown"


def acts(event: int, roles: int) -> Event:
    made = Event("action", role=f"r{event % roles}", data={"action": f"A{event}"}, time=event)
    made.seq = event
    return made


@pytest.mark.parametrize("profile", ["plans", "is a reviewer"])
def test_many_described_roles_take_time_in_proportion_to_their_number(
    growth: Any, profile: str
) -> None:
    """Each with actions of its own, none of them the one that it takes."""

    def judges(count: int) -> Callable[[], object]:
        roles = [{"name": f"r{n}", "profile": profile, "actions": [f"B{n}"]} for n in range(count)]
        trajectory = Trajectory("t", {"roles": roles}, [acts(n, count) for n in range(count)])
        return lambda: RoleSpec().judge(TraceView(trajectory))

    growth(judges, 500, 8_000, at_most=16 * 5)
