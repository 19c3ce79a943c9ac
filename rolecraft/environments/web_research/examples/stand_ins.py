"""Test doubles that play the examples: a researcher who knows where to look, and a judge.

Both work as a model would: the researcher calls the tools, one call an answer, and the judge reads
what stands in the fence. So a rehearsal without a model goes the whole way.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from dataclasses import asdict
from typing import Any

from rolecraft.environments.web_research.examples import Example
from rolecraft.environments.web_research.matching import normalised
from rolecraft.environments.web_research.support import Pages
from rolecraft.errors import UsageError
from rolecraft.messages import ToolCall
from rolecraft.models.base import Completion
from rolecraft.models.doubles import FunctionModel, ModelCall

Calls = list[tuple[str, dict[str, Any]]]


def stand_in_researcher(
    known: Iterable[Example],
    plan: Callable[[Example], Calls] | None = None,
    *,
    name: str = "stand-in-researcher",
) -> FunctionModel:
    """A model that makes the calls of a plan: that of the reference, unless given.

    Raises `UsageError` when it is asked about another question.
    """
    examples, calls_of = list(known), plan or reference_calls

    def answer(call: ModelCall) -> Completion:
        said = "\n".join(message.content for message in call.messages)
        found = next((each for each in examples if each.question.question in said), None)
        if found is None:
            raise UsageError(f"The model {name!r} does not know this question: {said[-200:]!r}.")
        done = sum(message.role == "tool" for message in call.messages)
        calls = calls_of(found)
        if done >= len(calls):
            return Completion(text="I do not know.")
        tool, arguments = calls[done]
        asked = ToolCall(tool, dict(arguments), id=f"call-{done}")
        return Completion(text="", tool_calls=[asked], finish_reason="tool_calls")

    return FunctionModel(answer, name=name, keep_calls=False)


def reference_calls(example: Example) -> Calls:
    """Search for each page of the reference, read it, and submit the right answer."""
    calls: Calls = []
    for query, address in example.looks:
        calls += [("search", {"query": query}), ("read_page", {"address": address})]
    steps = [asdict(step) for step in example.steps]
    return [*calls, ("submit_answer", {"answer": example.question.answer, "steps": steps})]


_FILLERS = frozenset({"answer", "called", "in", "is", "it", "named", "of", "was"})
_MARKER = re.compile(r"The fence marker is ([0-9a-f]{10})\.")


def fenced_pieces(call: ModelCall) -> tuple[str, list[tuple[str, str]]]:
    """The marker of a judge's question, and the head and text of each piece in its fence."""
    system, question = call.messages[0].content, call.messages[-1].content
    found = _MARKER.search(system)
    if found is None:
        raise UsageError("This is no question to a judge of research: it has no fence.")
    marker = found[1]
    inside = question.partition(f"<<< {marker} begin\n")[2].rpartition(f"\n{marker} end >>>")[0]
    parts = [part for part in re.split(rf"^{marker} ", inside, flags=re.MULTILINE) if part]
    pieces = [(head, text.rstrip("\n")) for head, _, text in (p.partition("\n") for p in parts)]
    return marker, pieces


def stand_in_judge(*, name: str = "stand-in-judge") -> FunctionModel:
    """A judge by words: strict, honest, and deaf to what is said to it."""

    def answer(call: ModelCall) -> str:
        marker, pieces = fenced_pieces(call)
        return json.dumps({"marker": marker, **judgement(pieces)})

    return FunctionModel(answer, name=name, keep_calls=False)


def judgement(pieces: list[tuple[str, str]]) -> dict[str, Any]:
    """What `stand_in_judge` says about the pieces of a question."""
    heads = [head for head, _ in pieces]
    if "the answer that was given" in heads:
        accepted = [normalised(text) for head, text in pieces if head == "a right answer"]
        given = normalised(dict(pieces)["the answer that was given"])
        words = set(given.split()) - _FILLERS
        correct = any(words == set(each.split()) - _FILLERS for each in accepted)
        return {"reason": f"{given!r} against {accepted[0]!r}.", "correct": correct}
    if "the answer" in heads:
        conclusions = [
            int(re.findall(r"\d+", head)[0]) for head in heads if head.endswith("a conclusion")
        ]
        links = [{"step": number, "follows": True} for number in (*conclusions, 0)]
        return {"reason": "", "links": links}
    claims = []
    for head, claim in pieces:
        if head.startswith("claim "):
            number = int(head.removeprefix("claim "))
            shown = [
                text.partition("\n\n")
                for of, text in pieces
                if of.startswith(f"a passage for claim {number},")
            ]
            best = Pages(("", title, text) for title, _, text in shown).best(claim, most=1)
            carried = bool(best) and best[0].carries
            quote = best[0].text if carried else ""
            claims.append({"claim": number, "carried": carried, "quote": quote})
    return {"claims": claims}
