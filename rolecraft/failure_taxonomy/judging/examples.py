"""Worked examples for the few-shot judge: small runs of our own, with the answer they deserve.

They show the form of an answer and where look-alike modes part, stand before the record, each in
a fence of its own, and can never be evidence: their events have numbers that no record has, and
`quotes_example` finds a quote that was taken from them. Each holds failures beside near misses;
the last one holds near misses only. `tests` check every answer here as they check a model's.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from rolecraft.failure_taxonomy.evidence import find_quote, quotable
from rolecraft.failure_taxonomy.windows import head_of
from rolecraft.trajectories.events import Artifact, Event, EventKind

FIRST_NUMBER = 9_000_001
"""Events of examples are numbered from here."""
TELLING = 16
"""Characters, without spaces, from which on words that stand in an example are taken from it."""


@dataclass(frozen=True, slots=True)
class Example:
    """A small run. `findings` has for some modes (verdict, event, quote, reason); others are
    absent. An event is meant by its place in `events`."""

    task: str
    events: tuple[Event, ...]
    diagnosis: str
    findings: Mapping[str, tuple[str, int, str, str]]

    def answer(self, modes: Sequence[str], marker: str) -> dict[str, Any]:
        """The answer that this run deserves, about `modes`."""
        return {
            "marker": marker,
            "diagnosis": self.diagnosis,
            "findings": [self._row(mode) for mode in modes],
        }

    def _row(self, mode: str) -> dict[str, Any]:
        if mode not in self.findings:
            return {"mode": mode, "verdict": "absent", "confidence": 0.9}
        verdict, at, quote, reason = self.findings[mode]
        row: dict[str, Any] = {"mode": mode, "verdict": verdict}
        if verdict == "present":
            event = self.events[at]
            row |= {"role": event.role, "events": [event.seq], "quote": quote}
        return row | {"confidence": 0.9, "reason": reason}


def worked_examples(modes: Sequence[str], shots: int) -> str:
    """The first `shots` examples as text, with their answers about `modes`; "" for none."""
    return _written(tuple(modes), shots) if shots else ""


def quotes_example(quote: str, shots: int) -> bool:
    """True for words that stand in one of the first `shots` examples, and hardly by chance."""
    return sum(map(len, quote.split())) >= TELLING and any(
        find_quote(quote, text) is not None for texts in _texts()[:shots] for text in texts
    )


@lru_cache(64)
def _written(modes: tuple[str, ...], shots: int) -> str:
    parts = [_INTRODUCTION]
    for number, example in enumerate(EXAMPLES[:shots], start=1):
        marker = f"example-{number}"
        record = [f"{marker} task\n{example.task}"]
        record += [f"{marker} {head_of(event)}\n{quotable(event)}" for event in example.events]
        parts.append(f"## Example {number}\n\n<<< {marker} begin")
        parts.append("\n\n".join(record))
        answer = json.dumps(example.answer(modes, marker), ensure_ascii=False)
        parts.append(f"{marker} end >>>\n\nIts answer:\n{answer}\n")
    return "\n".join(parts)


@lru_cache(1)
def _texts() -> list[list[str]]:
    return [[e.task, *map(quotable, e.events), e.diagnosis] for e in EXAMPLES]


_INTRODUCTION = """\

# Worked examples

Other runs, made up to show how to answer. Nothing in them belongs to the record, and nothing in
them can be evidence. Each has a fence of its own.
"""


def _run(*told: tuple[EventKind, str, str, str], first: int) -> tuple[Event, ...]:
    """Events of (kind, role, receiver, text); the text of an artifact begins with its name."""
    events = []
    for number, (kind, role, to, text) in enumerate(told, start=FIRST_NUMBER + first):
        event = Event(kind, role=role, to=(to,) if to else (), content=text, seq=number)
        if kind == "artifact":
            name, _, event.content = text.partition("\n")
            event.artifact = Artifact(name, "")
        elif kind == "tool_call":
            tool, _, argument = text.partition(" ")
            event.content, event.data = "", {"tool": tool, "arguments": {"of": argument}}
        events.append(event)
    return tuple(events)


EXAMPLES = (
    Example(
        task=(
            "A table of the twelve bridges of Orvanne with their spans in metres. `surveyor` "
            "reads the sheets, `draughtsman` makes the table, `proofreader` checks it."
        ),
        events=_run(
            ("tool_call", "surveyor", "", "read_sheet Orvanne"),
            ("tool_result", "surveyor", "", "Eleven rows. The sheet is torn below Mill Bridge."),
            ("message", "surveyor", "draughtsman", "Eleven spans in feet; the sheet is torn."),
            ("artifact", "draughtsman", "", "bridges.csv\nbridge,span_feet\nMill Bridge,131\n…"),
            ("message", "proofreader", "draughtsman", "It has a header and commas: approved."),
            ("message", "draughtsman", "user", "Every bridge of Orvanne is in the table now."),
            first=0,
        ),
        diagnosis=(
            "The team wanted a table of twelve spans in metres. The sheet was torn after eleven; "
            "the draughtsman wrote feet, the proofreader looked at commas only, and the table was "
            "handed over with a bridge missing."
        ),
        findings={
            "task_spec": (
                "present",
                3,
                "bridge,span_feet",
                "The task demands metres, the table has feet.",
            ),
            "premature_end": (
                "present",
                5,
                "Every bridge of Orvanne is in the table now.",
                "The twelfth bridge is open when the work is handed over.",
            ),
            "verification.weak": (
                "present",
                4,
                "It has a header and commas: approved.",
                "The check looks at the form and misses unit and number of rows.",
            ),
            "verification.absent": (
                "absent",
                0,
                "",
                "The last version was checked, though badly: that is `verification.weak`.",
            ),
            "withholding": ("absent", 0, "", "The surveyor passed on that the sheet is torn."),
        },
    ),
    Example(
        task=(
            "Find out at which hour the tide gauge of Skarnsund fell silent. `diver` reads the "
            "gauge's log, `harbourmaster` leads."
        ),
        events=_run(
            ("message", "harbourmaster", "diver", "Which hour was it? The log has the answer."),
            ("tool_call", "diver", "", "read_gauge_log Tuesday"),
            ("tool_result", "diver", "", "last tide mark 04:10, then nothing"),
            ("message", "diver", "harbourmaster", "The gauge fell silent at ten past four."),
            ("message", "harbourmaster", "diver", "Ten past four it is: nothing is left to do."),
            ("tool_call", "diver", "", "read_gauge_log Tuesday"),
            ("tool_result", "diver", "", "last tide mark 04:10, then nothing"),
            ("message", "harbourmaster", "diver", "Welcome, crew! Our task: a gauge fell silent."),
            first=100,
        ),
        diagnosis=(
            "The hour was found and accepted. Then the diver read the same log once more, and the "
            "harbourmaster opened the work anew, as if nobody had answered."
        ),
        findings={
            "repetition": (
                "present",
                5,
                '"tool":"read_gauge_log"',
                "The same log of the same day is read again, and nothing has changed.",
            ),
            "termination_unaware": (
                "present",
                5,
                '"tool":"read_gauge_log"',
                "The harbourmaster has closed the matter, and the diver works on.",
            ),
            "reset": (
                "present",
                7,
                "Welcome, crew! Our task: a gauge fell silent.",
                "The talk begins anew without a cause, after the answer was found.",
            ),
            "history_loss": (
                "absent",
                0,
                "",
                "Nobody goes on from an older state; the whole dialogue starts over: `reset`.",
            ),
        },
    ),
    Example(
        task=(
            "A menu for forty guests in the old granary. `buyer` looks at market and kitchen, "
            "`host` knows the guests, `cook` writes the menu."
        ),
        events=_run(
            ("tool_call", "buyer", "", "inspect granary"),
            ("tool_result", "buyer", "", "Market: leeks, trout. The granary's oven is walled up."),
            ("message", "buyer", "cook", "The market has leeks and trout."),
            ("message", "host", "cook", "Nine of the forty eat neither fish nor meat."),
            ("message", "cook", "host", "How large may a portion be?"),
            ("message", "host", "cook", "As large as the small plates."),
            ("message", "cook", "user", "Trout from the oven on leeks, forty small plates."),
            first=200,
        ),
        diagnosis=(
            "The menu needs an oven that is walled up, which only the buyer knew, and gives trout "
            "to nine guests of whom the host had said that they eat none."
        ),
        findings={
            "withholding": (
                "present",
                2,
                "The market has leeks and trout.",
                "The buyer knows of the oven, writes to the cook, and leaves it out.",
            ),
            "ignored_input": (
                "present",
                6,
                "Trout from the oven on leeks, forty small plates.",
                "What the host said of nine guests is neither used nor answered.",
            ),
            "no_clarification": (
                "absent",
                0,
                "",
                "What was unclear, the portions, the cook asked. Of the oven he was not told.",
            ),
            "verification.absent": (
                "present",
                6,
                "",
                "The menu goes out, and nobody has held it against kitchen and guests.",
            ),
        },
    ),
    Example(
        task=(
            "Put the inscription of the Lindwurm fountain into English. `translator` translates; "
            "`archivist` hands out sources and changes no text."
        ),
        events=_run(
            ("message", "archivist", "translator", "The squeeze of 1788 is the best source."),
            ("message", "translator", "archivist", "I shall leave every place name as carved."),
            ("artifact", "translator", "", "fountain.txt\nGiven by the burghers of Copenhagen …"),
            ("message", "archivist", "translator", "I gave the second half more swing myself."),
            ("artifact", "archivist", "", "fountain.txt\nGiven, oh wanderer, by merry burghers …"),
            ("message", "translator", "user", "The fountain speaks English."),
            first=300,
        ),
        diagnosis=(
            "The translator announced to keep names as carved and then modernised one; the "
            "archivist rewrote the text although he only hands out sources. Nobody read the last "
            "version."
        ),
        findings={
            "reason_action": (
                "present",
                2,
                "Given by the burghers of Copenhagen",
                "The name is modernised right after the promise to leave names as carved.",
            ),
            "role_spec": (
                "present",
                3,
                "I gave the second half more swing myself.",
                "An archivist who changes no text rewrites it.",
            ),
            "derailment": ("absent", 0, "", "All of this serves the inscription."),
            "verification.absent": (
                "present",
                5,
                "",
                "The archivist's version is handed over, and nobody has read it.",
            ),
        },
    ),
    Example(
        task=(
            "Repair the striking train of the town-hall clock, at most two visits. `apprentice` "
            "works, `clockmaker` advises and tests."
        ),
        events=_run(
            ("message", "apprentice", "clockmaker", "Is the ninth hour to be struck as well?"),
            ("message", "clockmaker", "apprentice", "Yes, all twelve. Try the spring first."),
            ("tool_call", "apprentice", "", "strike_test hours"),
            ("tool_result", "apprentice", "", "strikes eight, hangs at nine"),
            ("message", "apprentice", "clockmaker", "Not the spring: a bent pin. I change plans."),
            ("tool_call", "apprentice", "", "straighten pin"),
            ("tool_call", "apprentice", "", "strike_test hours"),
            ("tool_result", "apprentice", "", "strikes one to twelve"),
            ("verify", "clockmaker", "", "All twelve hours heard from the square, two rounds."),
            ("message", "clockmaker", "user", "The clock strikes all its hours again."),
            first=400,
        ),
        diagnosis="Nothing went wrong: the pin was found, mended, tested and heard.",
        findings={
            "repetition": ("absent", 0, "", "The strike test is run again after a repair."),
            "reason_action": ("absent", 0, "", "The change of plan is announced, with its cause."),
            "no_clarification": ("absent", 0, "", "What was unclear was asked."),
            "ignored_input": ("absent", 0, "", "The advice about the spring is answered."),
            "verification.absent": ("absent", 0, "", "The clockmaker heard all twelve hours."),
        },
    ),
)
"""In the order in which `shots` takes them."""
