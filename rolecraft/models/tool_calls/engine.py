"""The one engine: text, reasoning and calls of an answer in one pass, in pieces of any size.

What is found depends on the text alone, not on how it was cut: every decision is made when all the
text that it depends on is there, or the answer has ended.
"""

from __future__ import annotations

from rolecraft.models.tool_calls.code_spans import CodeSpans
from rolecraft.models.tool_calls.grammar import Grammar
from rolecraft.models.tool_calls.source import Reading, Source


def read_answer(
    source: Source, grammar: Grammar, starts_in_reasoning: bool | None
) -> Reading[None]:
    """Read a whole answer.

    With `starts_in_reasoning` None the answer says it: it began in reasoning if it closes a block
    that it did not open.
    """
    reasoning = grammar.reasoning
    kinds = grammar.kinds
    thought = False
    unclosed = False  # it is known that no close marker of reasoning follows
    if starts_in_reasoning:
        unclosed = yield from _thinking(source, grammar, unclosed)
        thought = True
    elif grammar.begin is not None:
        yield from grammar.begin(source)
    search = grammar.marks.search
    code: CodeSpans | None = None
    while True:
        text, at = source.text, source.at
        end, marker = search(text, at, source.ended)
        if end > at:
            source.at = end
            source.say(text[at:end])
        if marker is None:
            if source.ended:
                return
            yield
            continue
        source.at += len(marker)
        kind = kinds.get(marker)
        if kind is None or kind == "call":
            if source.content:
                code = code or CodeSpans(source)
                bare = kind is None
                if code.may_surround(bare=bare):
                    if bare and not (yield from _stays(source, grammar, marker)):
                        source.say(marker)
                        continue
                    if (yield from code.around(marker, bare=bare)):
                        continue
            yield from grammar.body.read(source, marker)
        elif (yield from _quoted(source, marker)):
            source.say(marker)
        elif kind == "end":
            source.hold(marker)
        elif kind == "think" and (reasoning.opens_again or not (thought or source.content)):
            source.framed()
            unclosed = yield from _thinking(source, grammar, unclosed)
            thought = True
        elif kind == "drop" or (
            kind == "thought" and (reasoning.repeats if thought else reasoning.strays)
        ):
            pass
        elif kind == "thought" and starts_in_reasoning is None and not (thought or source.calls):
            source.rethink()
            code = None
            thought = True
        else:
            source.say(marker)


def _thinking(source: Source, grammar: Grammar, unclosed: bool) -> Reading[bool]:
    """Read a block of reasoning and its end. Returns whether no close marker can follow."""
    kinds = grammar.kinds
    while True:  # open markers at the very beginning
        space = yield from source.blanks()
        if (yield from source.marker(grammar.openings)) is None:
            source.unread(space)
            break
        source.think(space)
    search = grammar.endings.search
    while True:
        text, at = source.text, source.at
        end, marker = search(text, at, source.ended)
        if end > at:
            source.at = end
            source.think(text[at:end])
        if marker is None:
            if source.ended:
                source.framed()
                return True
            yield
            continue
        source.at += len(marker)
        if (yield from _quoted(source, marker)):
            source.think(marker)
        elif kinds.get(marker) == "thought":
            source.framed()
            return unclosed
        else:
            # A call. If the block is closed later, it is a quotation.
            later = [marker]
            closed = None
            while not unclosed:
                closed = yield from source.until(grammar.closings, later)
                if closed is None or not (yield from _quoted(source, closed)):
                    break
                later.append(closed)
            if closed is None:
                source.unread("".join(later))
                source.framed()
                return True
            source.think("".join(later))
            source.framed()
            return unclosed


def _stays(source: Source, grammar: Grammar, marker: str) -> Reading[bool]:
    """Whether `marker`, which was just read, is one also before what follows it."""
    space = yield from source.blanks()
    source.unread(marker + space)
    _, found = grammar.marks.match(source.text, source.at, source.ended)
    source.at += len(marker)
    return found == marker


def _quoted(source: Source, marker: str) -> Reading[bool]:
    """Whether `marker`, which was just read, stands between two backticks."""
    before = source.at - len(marker) - 1
    if (source.text[before] if before >= 0 else source.before) != "`":
        return False
    while source.at == len(source.text):
        if source.ended:
            return False
        yield
    return source.text[source.at] == "`"
