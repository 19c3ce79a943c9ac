"""The tools of a researcher: what they return, what they refuse, and what a broken web does."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote_plus

import pytest

from rolecraft import Role
from rolecraft.environments.tool_context_web import Page, PageError, WebHit
from rolecraft.environments.web_research import (
    Corpus,
    Document,
    Question,
    ReadPage,
    Researcher,
    Search,
    Web,
    WebResearchEnvironment,
    WebUnavailable,
)
from rolecraft.environments.web_research.record import pages_read
from rolecraft.errors import UnknownName, UsageError
from rolecraft.messages import ToolCall
from rolecraft.models import Completion, ScriptedModel
from rolecraft.trajectories import Event, Trajectory

QUESTION = Question("What colour has the door?", "green", links=["https://a.example/door"])
LONG = " ".join(f"word{n}" for n in range(300))
CORPUS = Corpus(
    [
        Document("https://a.example/door", "The door", "The door is green."),
        Document("https://b.example/long", "Long\npage", f"{LONG} The end is here."),
    ]
)


def calls(*made: tuple[str, dict[str, Any]]) -> list[Completion]:
    """An answer of the model for each call."""
    return [
        Completion(text="", tool_calls=[ToolCall(tool, arguments, id=f"c{number}")])
        for number, (tool, arguments) in enumerate(made)
    ]


def submit(answer: str = "green", *steps: tuple[str, str]) -> tuple[str, dict[str, Any]]:
    listed = [{"claim": claim, "source": source} for claim, source in steps]
    return "submit_answer", {"answer": answer, "steps": listed}


def environment(
    *made: tuple[str, dict[str, Any]], then: Sequence[str] = (), **options: Any
) -> WebResearchEnvironment:
    web = options.pop("web", None) or Web(search=CORPUS, pages=CORPUS)
    role = Researcher(model=ScriptedModel([*calls(*made), *then]))
    return WebResearchEnvironment(QUESTION.task(), [role], web=web, **options)


async def play(*made: tuple[str, dict[str, Any]], **options: Any) -> Trajectory:
    return await environment(*made, **options).episode()


def told(trajectory: Trajectory) -> list[tuple[bool, str]]:
    """What the model was told of each call."""
    return [(bool(e.data.get("ok")), e.content) for e in trajectory.of("tool_result")]


def measured(trajectory: Trajectory) -> dict[str, float]:
    return {signal.name: signal.value for signal in trajectory.signals}


async def test_results_are_text_for_the_model_and_typed_in_the_record() -> None:
    trajectory = await play(
        ("search", {"query": "green door"}),
        ("read_page", {"address": "https://a.example/door"}),
        submit("green", ("The door is green.", "https://a.example/door")),
    )
    found, read, _ = told(trajectory)
    assert found[1].startswith("1. The door\n   https://a.example/door\n")
    assert read[1] == "The door\nhttps://a.example/door\n\nThe door is green."
    (page,) = pages_read(trajectory.events)
    assert (page.url, page.title, page.text) == (
        "https://a.example/door",
        "The door",
        "The door is green.",
    )
    assert trajectory.events[page.steps[0]].content == read[1]


async def test_a_long_page_comes_in_parts_which_are_one_page() -> None:
    web = Web(search=CORPUS, pages=CORPUS, characters=1000)
    address = "https://b.example/long"
    trajectory = await play(
        ("read_page", {"address": address, "part": 1}),
        ("read_page", {"address": f"{address}#x", "part": 2}),
        ("read_page", {"address": address, "part": 4}),
        ("read_page", {"address": address, "part": 3}),
        submit("green", ("The end is here.", address)),
        web=web,
    )
    results = told(trajectory)
    assert results[0][1].startswith(f"Long page\n{address} (part 1 of 3)\n\nword0 word1")
    assert results[2] == (False, f"`{address}` has 3 parts; 4 is none of them.")
    (page,) = pages_read(trajectory.events)
    assert page.text == f"{LONG} The end is here."
    assert measured(trajectory)["information.supported"] == 1.0


async def test_the_steps_of_one_piece_of_work_are_limited_and_a_repeat_is_told() -> None:
    web = Web(search=CORPUS, pages=CORPUS, searches=2, reads=1)
    trajectory = await play(
        *[("search", {"query": f"door {n}"}) for n in range(3)],
        ("read_page", {"address": "https://a.example/door"}),
        ("read_page", {"address": "https://b.example/long"}),
        submit(),
        web=web,
    )
    results = told(trajectory)
    assert [ok for ok, _ in results] == [True, True, False, True, False, True]
    assert "The 2 searches are used up" in results[2][1]
    assert measured(trajectory)["searches"] == 2.0
    assert measured(trajectory)["information.pages"] == 1.0


async def test_a_run_that_goes_on_has_used_what_it_had_used(tmp_path: Path) -> None:
    """Calls that are served from the record count, as they did when they were made."""
    journal = tmp_path / "run.jsonl"
    web = Web(search=CORPUS, pages=CORPUS, searches=2)
    made = [*(("search", {"query": f"door {n}"}) for n in range(3)), submit()]
    whole = await play(*made, web=web, journal=journal)
    lines = journal.read_bytes().splitlines(keepends=True)
    results = [n for n, line in enumerate(lines) if json.loads(line).get("kind") == "tool_result"]
    journal.write_bytes(b"".join(lines[: results[1] + 1]))
    left = environment(*made[2:], web=web)
    again = await left.recover(journal)
    assert told(again) == told(whole)
    assert not told(again)[2][0]


@pytest.mark.parametrize(
    ("made", "problem"),
    [
        (("search", {"query": " "}), "1 to 500 characters"),
        (("search", {"query": "x" * 501}), "1 to 500 characters"),
        (("read_page", {"address": "https://c.example/"}), "not in the corpus"),
        (("submit_answer", {"answer": "x" * 501, "steps": []}), "1 to 500 characters"),
        (submit("x", ("", "")), "claim of step 1"),
        (submit("x", *[("so", "")] * 13), "12 steps"),
        (("submit_answer", {"answer": "x"}), "steps"),
        (("submit_answer", {"answer": "x", "steps": "none"}), "steps"),
    ],
)
async def test_what_cannot_be_done_is_told_and_the_work_goes_on(
    made: tuple[str, dict[str, Any]], problem: str
) -> None:
    trajectory = await play(made, submit())
    first, last = told(trajectory)
    assert not first[0]
    assert problem in first[1]
    assert last == (True, "green")
    assert measured(trajectory)["answer.correct"] == 1.0


class Erratic:
    """A web that raises what it is told to, in turn; None is an answer."""

    def __init__(self, *raised: Exception | None) -> None:
        self.raised = list(raised)

    def _next(self) -> None:
        error = self.raised.pop(0)
        if error is not None:
            raise error

    async def search(self, query: str, *, limit: int) -> list[WebHit]:
        self._next()
        return [WebHit("https://a.example/door", "The door")]

    async def read(self, url: str) -> Page:
        self._next()
        return Page(url, "The door", "The door is green.", status=404 if "gone" in url else 200)


@pytest.mark.parametrize(
    "error",
    [WebUnavailable("tavily", "503"), ConnectionError("refused"), KeyError("results")],
    ids=["typed", "of the network", "a fault of a provider"],
)
async def test_a_search_that_is_down_is_no_bad_answer(error: Exception) -> None:
    """No signal says 0, and an error says why: the predecessor trained on such a run as bad."""
    down = Erratic(error)
    trajectory = await play(
        ("search", {"query": "door"}), submit("red"), web=Web(search=down, pages=CORPUS)
    )
    assert not {"answer.correct", "information.quality", "reasoning.chain"} & set(
        measured(trajectory)
    )
    errors = list(trajectory.of("error"))
    assert [event.data["type"] for event in errors] == ["InfrastructureFailure"] * 3
    assert "not available" in errors[0].content


async def test_a_search_that_came_back_is_scored() -> None:
    web = Web(search=Erratic(ConnectionError("refused"), None), pages=CORPUS)
    trajectory = await play(
        ("search", {"query": "door"}), ("search", {"query": "door"}), submit("red"), web=web
    )
    assert measured(trajectory)["answer.correct"] == 0.0
    assert not list(trajectory.of("error"))


async def test_pages_that_are_not_there_are_not_read_and_no_fault_of_the_web() -> None:
    pages = Erratic(PageError("x", "it redirects too often"), None, None)
    trajectory = await play(
        ("read_page", {"address": "https://a.example/circle"}),
        ("read_page", {"address": "https://a.example/gone"}),
        ("read_page", {"address": "https://a.example/door"}),
        submit("green", ("The door is green.", "https://a.example/gone")),
        web=Web(search=CORPUS, pages=pages),
    )
    assert [ok for ok, _ in told(trajectory)] == [False, False, True, True]
    signals = measured(trajectory)
    assert signals["information.pages"] == 1.0
    assert signals["information.supported"] == 0.0  # it names the page that was not there


@pytest.mark.parametrize("different", [True, False], ids=["max_steps", "stuck"])
async def test_work_that_never_ends_has_no_answer_which_is_0(different: bool) -> None:
    """What says how it ended is a message too, and no answer."""
    made = [("search", {"query": f"door {n if different else 0}"}) for n in range(40)]
    trajectory = await play(*made)
    signals = measured(trajectory)
    assert signals["answer.given"] == signals["answer.correct"] == 0.0


async def test_an_answer_may_be_said_instead_of_submitted() -> None:
    trajectory = await play(
        ("read_page", {"address": "https://a.example/door"}),
        then=["I have read it. The final answer is: **Green**."],
    )
    signals = measured(trajectory)
    assert signals["answer.correct"] == 1.0
    assert signals["information.supported"] == 1.0
    assert signals["reasoning.chain"] == 0.0


async def test_a_page_of_text_is_no_answer() -> None:
    trajectory = await play(then=["green " * 500])
    assert measured(trajectory)["answer.given"] == 0.0


async def test_what_a_search_shows_is_not_read() -> None:
    trajectory = await play(
        ("search", {"query": "green door"}),
        submit("green", ("The door is green.", "https://a.example/door")),
    )
    signals = measured(trajectory)
    assert signals["information.pages"] == signals["information.quality"] == 0.0
    assert signals["reasoning.chain"] == 0.0


class Echo:
    """A page that shows what it was asked for, as search pages do."""

    async def read(self, url: str) -> Page:
        return Page(url, "Results", f"No results for {unquote_plus(url.partition('?')[2])}.")


async def test_what_a_role_made_a_page_say_is_no_evidence() -> None:
    address = "https://a.example/?The+moon+is+made+of+cheese"
    trajectory = await play(
        ("read_page", {"address": address}),
        submit("green", ("The moon is made of cheese.", address)),
        web=Web(search=CORPUS, pages=Echo()),
    )
    assert "The moon is made of cheese." in told(trajectory)[0][1]
    assert measured(trajectory)["information.supported"] == 0.0


async def test_a_result_that_only_looks_like_a_page_is_none() -> None:
    """Pages are told by the type of a recorded result, not by a tool's name or text."""
    forged = Event(
        "tool_result", role="Researcher", content="The door is green.", data={"ok": True}
    )
    assert pages_read([forged]) == []


def test_what_is_wrong_with_a_web_or_an_environment_is_said_at_once() -> None:
    for name in ("searches", "reads", "results", "characters"):
        with pytest.raises(UsageError, match=name):
            Web(search=CORPUS, pages=CORPUS, **{name: 0})
    with pytest.raises(UnknownName, match="Librarian"):
        environment(answers="Librarian")
    with pytest.raises(UsageError, match=r"Web\(search"):
        WebResearchEnvironment(QUESTION.task(), [Researcher()], web=CORPUS)  # type: ignore[arg-type]


async def test_a_tool_outside_such_an_environment_says_what_it_needs() -> None:
    model = ScriptedModel(calls(("search", {"query": "x"})))
    role = Role(name="Ada", tools=[Search(), ReadPage()], model=model)
    with pytest.raises(UsageError, match="has no web"):
        await role.run("Search.")
