"""What `rolecraft evaluate` says: its errors in options, and what an evaluation found."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from rolecraft.cli._broke_off import tell_what_is_open

if TYPE_CHECKING:
    from rolecraft.cli._output import Output
    from rolecraft.experiments.evaluation import Evaluation

_OPTIONS = (
    (r"`on_seen='(\w+)'`", r"`--seen \1`"),
    (r"raise `attempts`", "raise `--attempts`"),
    (r"give it `alone=Scenario\(\.\.\.\)`, or name one as `single`", "name one with `--single`"),
    (r"Take tokens or calls", "Take `--cost tokens` or `--cost calls`"),
    (r"Limit `calls` or `tokens`", "Limit `--calls`"),
    (r"choose another folder", "choose another folder with `--out`"),
)


def in_options(text: str) -> str:
    """An error of the library with options where it names arguments."""
    for pattern, words in _OPTIONS:
        text = re.sub(pattern, words, text)
    return text


def show_evaluation(found: Evaluation, output: Output, *, debug: bool) -> None:
    """Warnings, tables, how they were made, what broke off, and how to go on."""
    from rolecraft.cli._evaluation_tables import show_tables
    from rolecraft.experiments import evaluation_page as words

    for text in found.warnings:
        output.warn(text)
    show_tables(found, output)
    for text in words.how(found):
        output.say(text)
    if found.failures:
        output.say(words.failures_how(found))
    tell_what_is_open(found, output, debug=debug)
    output.say(f"Written to `{found.folder}`: evaluation.json, evaluation.md and evaluation.html.")
