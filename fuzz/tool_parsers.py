"""Any bytes to every parser of tool calls, whole and cut, with atheris.

    make fuzz                       # ten minutes
    python fuzz/tool_parsers.py CORPUS -max_total_time=60

Bytes below 128 are the characters they are; each byte above stands for a piece of a grammar, half
of one, an odd character, or (255) a word that stands nowhere else, so that the fuzzer puts grammars
together and takes them apart by changing single bytes. The first three bytes choose the parser, how
it is used, and the cuts.

For each text it must hold that nothing raises, that the output is the same in pieces of any sizes,
that each word comes out, that diagnostics and cut-off calls quote the text, and that eight times
the text takes at most `GROWTH` times the time.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import atheris

sys.path[:0] = [
    str(Path(__file__).parents[1]),
    str(Path(__file__).parents[1] / "tests" / "models" / "tool_calls"),
]

with atheris.instrument_imports(
    include=["rolecraft.models.tool_calls", "rolecraft.models.reasoning"]
):
    from rolecraft.models.tool_calls import ParsedOutput, get_parser

from tool_call_texts import (  # noqa: E402 - instrumented imports come first
    CODE,
    EVERY_MARKER,
    FORMATS,
    JSON,
    MARKERS,
    ODD,
    THINKING,
    everything,
)

GROWTH = 30.0
"""Eight times the text may take so many times as long, noise included; quadratic is 64."""
SLOW = 0.03
"""Seconds below which no growth is measured."""
WORD = 255
TOOLS = [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}]
PIECES: dict[str, list[str]] = {}


def pieces(name: str) -> list[str]:
    """What the bytes from 128 on stand for, in the texts of one format."""
    if name not in PIECES:
        own = list(MARKERS.get(name, EVERY_MARKER)) + list(THINKING)
        halves = [marker[: len(marker) // 2] for marker in own if len(marker) > 3]
        PIECES[name] = (own + halves + list(JSON + CODE + ODD) + EVERY_MARKER)[:127]
    return PIECES[name]


def text_of(name: str, data: bytes) -> tuple[str, list[str]]:
    """The text, and the words in it that stand nowhere else."""
    known, parts, words = pieces(name), [], []
    for number, byte in enumerate(data):
        if byte == WORD:
            words.append(f"w{number:04d}q")
            parts.append(words[-1])
        else:
            parts.append(chr(byte) if byte < 128 else known[(byte - 128) % len(known)])
    return "".join(parts), words


def one_input(data: bytes) -> None:
    if len(data) < 4:
        return
    name, how, seed = FORMATS[data[0] % len(FORMATS)], data[1], data[2]
    text, words = text_of(name, data[3:])
    parser = get_parser(name, repair=not how & 1)
    settings: dict[str, Any] = {
        "starts_in_reasoning": (False, True, None)[how // 2 % 3],
        "tools": TOOLS if how & 8 else None,
    }
    whole = parser.parse(text, **settings)
    check(name, text, words, whole)
    stream = parser.stream(**settings)
    for piece in cut(text, seed):
        stream.feed(piece)
    in_pieces = stream.finish()
    assert repr(in_pieces) == repr(whole), f"{name} {settings}: {text!r}: {in_pieces} | {whole}"
    if how >= 240:
        check_growth(name, text, settings)


def cut(text: str, seed: int) -> list[str]:
    """Pieces of 1 to 8 characters, of sizes that follow from `seed`."""
    found, at = [], 0
    while at < len(text):
        seed = (seed * 5 + 7) % 256
        found.append(text[at : at + 1 + seed // 32])
        at += 1 + seed // 32
    return found


def check(name: str, text: str, words: list[str], output: ParsedOutput) -> None:
    for call in output.tool_calls:
        assert isinstance(call.arguments, dict)
        assert not (call.incomplete and call.arguments)
        assert not call.incomplete or call.raw in text, f"{name}: {call.raw!r} not in {text!r}"
    for diagnostic in output.diagnostics:
        quoted = text[diagnostic.at :].startswith(diagnostic.text)
        assert quoted, f"{name}: {diagnostic} in {text!r}"
    came_out = everything(output)
    lost = [word for word in words if word not in came_out]
    assert not lost, f"{name}: {lost} of {text!r} -> {output}"


def check_growth(name: str, text: str, settings: dict[str, Any]) -> None:
    if not text:
        return
    parser = get_parser(name)
    unit = text * max(1, 2_000 // len(text))

    def seconds(times: int) -> float:
        long, best = unit * times, float("inf")
        for _ in range(3):
            start = time.process_time()
            parser.parse(long, **settings)
            best = min(best, time.process_time() - start)
            if best < SLOW:
                break
        return best

    # From two on: what stands in the text only once need not behave as what follows itself does.
    if (took := seconds(16)) > SLOW:
        twice = seconds(2)
        assert took <= GROWTH * twice, f"{name}: {took / twice:.0f} times for 8 times {text!r}"


if __name__ == "__main__":
    atheris.Setup(sys.argv, one_input)
    atheris.Fuzz()
