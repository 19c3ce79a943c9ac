"""The model that `rolecraft synth` asks or lets play: options, cost, and what went wrong."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from rolecraft.cli._exits import CommandLineError
from rolecraft.cli._output import Output
from rolecraft.cli._retries import brief_retries
from rolecraft.cli._wording import in_words_of_commands

if TYPE_CHECKING:
    from rolecraft.cli._models import Models

Price = Annotated[
    str | None,
    typer.Option(
        "--price",
        metavar="IN,OUT",
        help="US dollars for a million tokens of questions, and of answers, where no price is "
        "known: --usd needs one.",
    ),
]
Timeout = Annotated[
    float | None,
    typer.Option(
        "--timeout",
        min=0.1,
        metavar="SECONDS",
        help="What one attempt at an answer may take.  [default: 120]",
    ),
]
RetryTimes = Annotated[
    int | None,
    typer.Option(
        "--retries",
        min=0,
        metavar="N",
        help="So many more attempts where none came: no connection, too busy.  [default: 5]",
    ),
]
MaxTokens = Annotated[
    int | None,
    typer.Option("--max-tokens", min=1, metavar="TOKENS", help="The longest answer it may give."),
]
OF_A_PLAYER = frozenset({"--base-url", "--price", "--timeout", "--retries"})
"""Options about a model that plays a role, whose settings say how long its answers may be."""
OF_AN_AUTHOR = OF_A_PLAYER | {"--max-tokens"}
"""Options about a model that writes bugs or texts."""
_SHOWN = 5


def asked_model(
    model: str | None,
    base_url: str | None,
    *,
    price: str | None = None,
    timeout: float | None = None,
    retries: int | None = None,
    debug: bool = False,
) -> Models | None:
    """The model of `--model`. Raises `CommandLineError`, or `MissingKey` where a key is missing."""
    given = {"--base-url": base_url, "--price": price, "--timeout": timeout, "--retries": retries}
    if model is None:
        for option, value in given.items():
            if value is not None:
                raise CommandLineError(f"`{option}` is about a model: name it with `--model`.")
        return None
    from rolecraft.cli._models import Models
    from rolecraft.models import LiteLLMModel
    from rolecraft.models.retries import Retries

    models = Models(model, base_url=base_url)
    asked = models.everyone
    for option in ("--price", "--timeout", "--retries"):
        if given[option] is not None and not isinstance(asked, LiteLLMModel):
            raise CommandLineError(f"`{option}` is about a model behind an API, as `openai/NAME`.")
    if isinstance(asked, LiteLLMModel):
        if price is not None:
            asked.prices = _prices(price)
        if timeout is not None:
            asked.timeout = timeout
        if retries is not None:
            asked.retries = Retries(times=retries)
    models.check_keys()
    brief_retries(debug=debug)
    return models


def _prices(text: str) -> tuple[float, float]:
    """US dollars for one token of a question, and of an answer."""
    question, comma, answer = text.partition(",")
    try:
        prices = float(question) / 1e6, float(answer) / 1e6
    except ValueError:
        comma = ""
    if not comma or not all(0 <= price < float("inf") for price in prices):
        raise CommandLineError(
            f"`--price {text}`: write two prices from 0 with a comma between, such as 0.15,0.6."
        )
    return prices


@contextmanager
def in_options(options: frozenset[str] = OF_AN_AUTHOR) -> Iterator[None]:
    """What the model's errors advise is said with the options of these commands."""
    from rolecraft.errors import RolecraftError

    try:
        yield
    except RolecraftError as error:
        error.args = (options_for(str(error), options), *error.args[1:])
        raise


def options_for(text: str, options: frozenset[str] = OF_AN_AUTHOR) -> str:
    """A library's advice about a model, with the options of these commands."""
    return in_words_of_commands(text, options)


def cost(usd: float | None) -> str:
    """An amount of money for people."""
    return "price unknown" if usd is None else f"${usd:.6f}"


def say_cost(usd: float | None, made: int, thing: str, output: Output) -> None:
    """What the questions took, and what each thing that came of them."""
    if usd is None:
        output.say("Cost: price unknown.")
    else:
        each = f", {cost(usd / made)} a {thing}" if made else ""
        output.say(f"Cost: {cost(usd)} in all{each}.")


def say_refused(reasons: Mapping[str, int], output: Output) -> None:
    """How many answers could not be used, by kinds of reasons: what stands before the colon."""
    from rolecraft.trajectories.in_words import count

    kinds: Counter[str] = Counter()
    first: dict[str, str] = {}
    for why, often in reasons.items():
        kind, _, rest = options_for(why).rstrip(".").partition(": ")
        kinds[kind] += often
        first.setdefault(kind, rest)
    for kind, often in kinds.most_common(_SHOWN):
        such = f" (the first: {first[kind]})" if first[kind] else ""
        output.say(f"{count(often, 'answer')} could not be used: {kind}{such}.")
    if rest_of := sum(often for _, often in kinds.most_common()[_SHOWN:]):
        output.say(f"{count(rest_of, 'more answer')} could not be used for other reasons.")


def say_unanswered(failed: Mapping[str, str], stopped: str, output: Output) -> None:
    """What the model did not answer, and what ended it early."""
    for item, why in list(failed.items())[:_SHOWN]:
        output.warn(f"{item}: {options_for(why)}")
    if len(failed) > _SHOWN:
        output.warn(f"… and {len(failed) - _SHOWN} more without an answer.")
    if stopped:
        output.warn(f"{options_for(stopped)} The rest is left: call it again{_more(stopped)}.")


def _more(stopped: str) -> str:
    return " with more" if stopped.startswith("The limit of") else ""
