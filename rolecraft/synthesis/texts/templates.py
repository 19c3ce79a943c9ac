"""Static templates: a symptom in the words of somebody who reports it.

Several ways to say each thing; which one is taken is told by the task's id, so the same task has
the same text each time.
"""

from __future__ import annotations

from collections.abc import Sequence

from rolecraft.models.hashing import hash64
from rolecraft.synthesis.texts.masking import StandIn
from rolecraft.synthesis.texts.symptom import Kind, Symptom
from rolecraft.synthesis.texts.values import value_said

_TITLES: dict[Kind, tuple[str, ...]] = {
    "value": (
        "Unexpected result",
        "Wrong result for valid input",
        "The result is not what I expect",
        "{project} returns something else than it should",
    ),
    "condition": (
        "A property that should hold does not",
        "Unexpected result",
        "{project} does not behave as expected here",
        "Behaviour is not what I expect",
    ),
    "error": (
        "Unexpected {error}",
        "{error} for valid input",
        "{project} raises {error} where it should not",
        "Getting {error} in a simple case",
    ),
    "no-error": (
        "No {expected} is raised",
        "{expected} expected, but nothing is raised",
        "Invalid input is accepted silently",
        "Missing {expected}",
    ),
    "output": ("A check of mine fails", "Unexpected output", "{project} gives other results"),
}
_TITLE_OF_DOCUMENTED = "Result differs from what the documentation makes me expect"
"""Of a value, where the text quotes documentation."""
_OPENINGS = (
    "With {project} {version}, this does not do what it should:",
    "I ran into this with {project} {version}:",
    "Here is a small example ({project} {version}):",
    "To reproduce, with {project} {version}:",
    "The following shows the problem in {project} {version}:",
    "I use {project} {version} and this surprised me:",
)
_PLAIN_OPENINGS = (
    "With {project} {version}, one of my checks fails.",
    "I use {project} {version}, and a check of mine does not succeed any more.",
)
_EXPECTED = (
    "I expected:",
    "Expected:",
    "What I expect:",
    "It should be:",
    "The result should be:",
)
_GOT = ("Instead I get:", "Actual result:", "What I get:", "It is:", "What comes back instead:")
_WHERE = (
    "Here `{name}` stands for {kind} that is documented as “{about}”.",
    "(`{name}` is {kind}; its documentation says “{about}”.)",
    "By `{name}` I mean {kind} with this description: “{about}”.",
)
_WHERE_UNKNOWN = (
    "Here `{name}` stands for {kind} of the library.",
    "(`{name}` is {kind} of the library.)",
)
_PRINTED = ("Here `{name}` is {kind}.", "(`{name}` is {kind}.)", "`{name}` stands for {kind}.")
_OF_PROJECT = ("(Of {project} itself: {names}.)", "What comes with {project}: {names}.")
_OWN = ("({names}: from my own set-up.)", "What I set up myself: {names}.")
_NO_ERROR = (
    "I expected `{expected}` to be raised, but nothing is raised.",
    "This should raise `{expected}`. It goes through without any error.",
    "There is no error at all; I would expect `{expected}`.",
)
_OTHER_ERROR = (
    "I expected `{expected}` to be raised. What is raised instead is:",
    "This should raise `{expected}`, but I get:",
)
_ERROR = (
    "This raises:",
    "It fails with:",
    "What I get is an exception:",
    "The result is an error:",
)
_NO_VALUE = (
    "The result is something else.",
    "What I get is different.",
    "That is not what comes back.",
)
_HOLDS = (
    "I would expect the last line to be true, but it is not.",
    "The last expression should hold. It does not.",
    "The last line should give a true value and does not.",
)
_HOLDS_NOT = " With the values put in, it reads `{got}`."
_OUTPUT = ("This is what it says:", "The output:")


def filled_in(symptom: Symptom, *, task: str, project: str, version: str = "") -> str:
    """The text of an issue, in Markdown."""
    say = _Saying(task, project=project, version=version, symptom=symptom)
    titles = _TITLES[symptom.kind]
    if symptom.kind == "value" and any(each.about for each in symptom.stand_ins):
        titles = (*titles, _TITLE_OF_DOCUMENTED)
    parts = [f"# {say('title', titles)}"]
    lines = [*symptom.code]
    if symptom.expression and symptom.expression not in ("", *lines[-1:]):
        lines.append(symptom.expression)
    if lines:
        parts += [say("opening", _OPENINGS), _block(lines, "python")]
    else:
        parts += [say("plain", _PLAIN_OPENINGS)]
    parts += [_stands_for(say, each) for each in symptom.stand_ins]
    if symptom.own:
        own = (
            f"`{name}`" if name == real else f"`{name}` (`{real}`)" for name, real in symptom.own
        )
        parts.append(say("of project", _OF_PROJECT, names=", ".join(own)))
    for each in symptom.printed:
        parts.append(say("printed", _PRINTED, name=each.name, kind=each.kind))
    if symptom.unknown:
        names = ", ".join(f"`{name}`" for name in symptom.unknown)
        parts.append(say("unknown", _OWN, names=names))
    parts += _outcome(say, symptom)
    return "\n\n".join(parts) + "\n"


class _Saying:
    def __init__(self, task: str, *, project: str, version: str, symptom: Symptom) -> None:
        self._task = task
        self._words = {
            "project": project,
            "version": version,
            "error": symptom.error or "an exception",
            "expected": symptom.expected,
            "got": symptom.got,
        }

    def __call__(self, what: str, ways: Sequence[str], **words: str) -> str:
        """One of these ways to say it, with the words filled in."""
        way = ways[hash64("issue-text", self._task, what) % len(ways)]
        if not self._words["version"]:
            way = way.replace(" {version}", "")
        return way.format(**{**self._words, **words})


def _outcome(say: _Saying, symptom: Symptom) -> list[str]:
    match symptom.kind:
        case "value":
            parts = [say("expected", _EXPECTED), _value(symptom.expected)]
            if not symptom.got:
                told = f" {symptom.message}" if symptom.message else ""
                return [*parts, say("no value", _NO_VALUE) + told]
            return [*parts, say("got", _GOT), _value(symptom.got)]
        case "condition":
            with_values = symptom.got and symptom.got != symptom.expression
            told = say("values", (_HOLDS_NOT,)) if with_values else ""
            return [say("holds", _HOLDS) + told]
        case "no-error":
            return [say("no error", _NO_ERROR)]
        case "output":
            return [say("output", _OUTPUT), _block(symptom.message.splitlines(), "")]
    raised = _block(_raised(symptom), "")
    if symptom.expected and is_exception(symptom.expected):
        return [say("other error", _OTHER_ERROR), raised]
    parts = [say("error", _ERROR), raised]
    if symptom.expected:
        parts += [say("expected", _EXPECTED), _value(symptom.expected)]
    return parts


def _raised(symptom: Symptom) -> list[str]:
    words = ": ".join(filter(None, (symptom.error, symptom.message)))
    return (words or "an exception with another text").splitlines()


def is_exception(expected: str) -> bool:
    """Whether what is expected is an exception, by its name."""
    last = expected.strip("()").rpartition(".")[2]
    return last.endswith(("Error", "Exception", "Warning", "Exit", "Iteration", "Interrupt"))


def _stands_for(say: _Saying, stand_in: StandIn) -> str:
    ways = _WHERE if stand_in.about else _WHERE_UNKNOWN
    words = {"name": stand_in.name, "kind": stand_in.kind, "about": stand_in.about}
    return say(f"stands for {stand_in.name}", ways, **words)


def _value(value: str) -> str:
    """A value as code; a text of several lines as it would be printed."""
    known = value_said(value)
    if isinstance(known, str) and "\n" in known.strip("\n") and "```" not in known:
        lines = known.split("\n")
        if all(map(str.isprintable, lines)):
            return _block(lines, "")
    return _block(value.splitlines() or [""], "python")


def _block(lines: Sequence[str], language: str) -> str:
    return "\n".join([f"```{language}", *lines, "```"])
