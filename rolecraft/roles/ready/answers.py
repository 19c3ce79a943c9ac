"""Reading answers: where in a text the final answer stands, and which number it is, exactly.

Values are fractions: nothing is rounded, so 0.333 is not 1/3. What could be read in two ways is
read in none.
"""

from __future__ import annotations

import re
import unicodedata
from fractions import Fraction

from rolecraft.roles.ready.units import Unit, unit_of

_SAID = re.compile(
    r"(?:final\s+)?answer\b\W{0,4}?(?:is\b(?:[ \t]*:)?|[:=])[ \t]*(\S[^\n]*)", re.IGNORECASE
)
_BRACE = re.compile(r"[{}]")
_BOXED = re.compile(r"\\boxed\s*\{")
_MARKED = re.compile(r"^####[ \t]*(\S[^\n]*)", re.MULTILINE)
_UNSIGNED = r"(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?|\.\d+"
_NUMBER = re.compile(
    rf"(?P<sign>[+-]\s*)?(?:(?P<whole>\d+)\s+(?=\d+\s*/))?(?P<top>{_UNSIGNED})"
    rf"(?:\s*/\s*(?P<bottom>{_UNSIGNED})|e(?P<exponent>[+-]?\d{{1,3}}))?",
    re.IGNORECASE,
)
_TIMES_TEN = re.compile(r"\s*(?:x|\*|×|·)\s*10\s*\^\s*(?P<power>[+-]?\d{1,3})(?!\d)")  # noqa: RUF001
_MANY = {
    "hundred": 100,
    "thousand": 1000,
    "million": 10**6,
    "billion": 10**9,
    "trillion": 10**12,
}
_MANY_SAID = re.compile(rf"\s*(?P<many>{'|'.join(_MANY)})s?\b", re.IGNORECASE)
_REPEATING = re.compile(r"(\d*)\.(\d*)(?:\\overline\s*\{(\d+)\}|\((\d+)\))")
_UNIT_POWER = re.compile(r"(?<=[A-Za-z])\s*(?:\^\s*[23]|[²³])(?!\d)")
_NO_UNIT = re.compile(r"^(?:!|[kKMB]\b|\s*(?:π|√|\\[A-Za-z]))")
"""What follows a number and changes its value, or may: `5!`, `12k`, `3π`, `2\\sqrt{3}`."""
_MAX_DIGITS = 200
"""Longer texts are no answers, and big integers are slow to read."""


def final_answer(text: str) -> str | None:
    r"""The answer that a text commits itself to; None if it does not.

    The last `\boxed{…}`, else what follows the last `####` that begins a line, else what follows
    the last "answer is" or "answer:" on its line.
    """
    boxed = _last_boxed(text)
    if boxed is not None:
        return boxed
    marked = _MARKED.findall(text)
    if marked:
        return str(marked[-1]).strip()
    said = _SAID.findall(text.replace("*", "").replace("_", " "))
    return said[-1].strip() if said else None


def _last_boxed(text: str) -> str | None:
    r"""What stands in the last `\boxed{…}` that is closed; braces in it are balanced.

    One pass over the braces: a text of nothing but `\boxed{` is read as quickly as any other.
    """
    closed: dict[int, int] = {}
    opened: list[int] = []
    for brace in _BRACE.finditer(text):
        if brace[0] == "{":
            opened.append(brace.start())
        elif opened:
            closed[opened.pop()] = brace.start()
    ends = [box.end() for box in _BOXED.finditer(text) if box.end() - 1 in closed]
    return text[ends[-1] : closed[ends[-1] - 1]].strip() if ends else None


def exact_value(text: str) -> Fraction | None:
    r"""The one number in an answer; None if there is none, or more than one.

    Reads integers, decimals (`0.\overline{3}` and `0.(3)` are 1/3), thousands commas, fractions
    (`3/4`, `1 3/4`, `\frac{3}{4}`, `¾`), per cent (`12.5%` is 1/8), powers of ten (`1.2e3`,
    `1.2 \times 10^3`, `1.2 million`), with a currency sign or a unit around it; of an equation the
    right-hand side. Nothing is evaluated: `2^3` and `4 + 5` are no numbers.
    """
    read = _read(text)
    return None if read is None else read[0]


def _read(text: str) -> tuple[Fraction, str] | None:
    """The number in an answer, and what stands after it, its unit perhaps."""
    if len(text) > _MAX_DIGITS:
        return None
    sides = _plain(text).split("=")
    if len(sides) > 1 and re.search(r"\d\s*(?:[,;]\s|\b(?:and|or)\b)", "=".join(sides[:-1])):
        return None  # several equations
    plain = re.sub(r"(?<!\.)\.$", "", sides[-1].strip())
    found = _NUMBER.search(plain)
    if found is None:
        return None
    before, after = plain[: found.start()], plain[found.end() :]
    if re.search(r"[\w,.|]$|[-+√]\s*$|\\[A-Za-z]+\s*$", _without_nearly(before)):
        return None  # part of a word, of a term, or of a number that is written in an unknown way
    value = _as_fraction(found)
    if (times := _TIMES_TEN.match(after)) and found["bottom"] is None:
        value = None if value is None else value * Fraction(10) ** int(times["power"])
        after = after[times.end() :]
    elif many := _MANY_SAID.match(after):
        value = None if value is None else value * _MANY[many["many"].lower()]
        after = after[many.end() :]
    if _NO_UNIT.match(after) or re.match(r"[\d,.]*\d|\.\.|…|/|\^|\*", after):
        return None
    if any(sign.isdigit() for sign in before + _UNIT_POWER.sub("", after)):
        return None
    if value is not None and re.match(r"\s*(%|per\s?cent)", after, re.IGNORECASE):
        value /= 100
    return None if value is None else (value, after)


def _without_nearly(text: str) -> str:
    r"""Without `\approx` at its end, which says how sure somebody is of the number after it."""
    return re.sub(r"\\(?:approx|sim)\s*$", "", text)


def _unit(text: str) -> Unit | None:
    """The unit of the number in an answer, where it is one that is known."""
    read = _read(text)
    if read is None:
        return None
    if unit := unit_of(read[1]):
        return unit
    signs = [sign for sign in "€£" if sign in text]
    if r"\$" in text or text.count("$") == 1:
        signs.append("$")
    return unit_of(signs[0]) if len(signs) == 1 and not read[1].strip(" .") else None


def is_none(text: str) -> bool:
    """True for an answer that says there is none, in the word `None`."""
    return len(text) <= _MAX_DIGITS and _plain(text).strip(" .").lower() == "none"


def is_right(given: str, expected: str, *, decimals: int | None = None) -> bool:
    """True if `given` has exactly the value of `expected`, or both are `None`.

    Where both have a unit that is known, values count in units: 90 min are 1.5 h, and 12 km are
    neither 12 m nor 12 kg. A unit on one side only is not looked at. Where a percentage is asked
    for, one without its sign is right too. With `decimals` the expected value was rounded to so
    many, and what rounds to it is right.
    """
    if is_none(expected):
        return is_none(given)
    value, right = exact_value(given), exact_value(expected)
    if value is None or right is None:
        return False
    ours, theirs = _unit(given), _unit(expected)
    if ours is not None and theirs is not None:
        if not ours.same_kind(theirs):
            return False
        value = value * ours.factor / theirs.factor
    if decimals is not None and abs(value - right) <= Fraction(1, 2 * 10**decimals):
        return True
    percent = "%" in expected and "%" not in given and "cent" not in given.lower()
    return value == right or (percent and value == right * 100)


def _as_fraction(found: re.Match[str]) -> Fraction | None:
    top = Fraction(found["top"].replace(",", ""))
    bottom = Fraction((found["bottom"] or "1").replace(",", ""))
    if bottom == 0:
        return None
    value = top / bottom + int(found["whole"] or 0)
    value *= Fraction(10) ** int(found["exponent"] or 0)
    return -value if (found["sign"] or "").startswith("-") else value


def _plain(text: str) -> str:
    """LaTeX and typographic signs as plain text."""
    text = text.replace("{,}", ",")
    text = _REPEATING.sub(_spelled_out, text)
    text = re.sub(r"\\times\b|\\cdot\b", "×", text)  # noqa: RUF001
    text = re.sub(r"\^\s*\{?\s*\\circ\s*\}?", "°", text)
    text = re.sub(r"\\[dt]?frac\s*\{([^{}]*)\}\s*\{\s*-([^{}]*)\}", r"-\\frac{\1}{\2}", text)
    text = re.sub(r"\\[dt]?frac\s*\{([^{}]*)\}\s*\{([^{}]*)\}", r" \1/\2 ", text)
    text = re.sub(r"\\[dt]?frac\s*(\d)\s*(\d)", r" \1/\2 ", text)
    text = re.sub(r"\\(?:text|mathrm|mbox|textbf|mathbf)\s*\{([^{}]*)\}", r" \1 ", text)
    text = text.replace(r"\%", "%").replace(r"\$", "$")
    text = re.sub(r"(?<=\d)(?:\\[,;: ]|[\u2009\u202f])(?=\d{3}(?!\d))", "", text)
    text = re.sub(r"\\[,;:! ]|\\(?:left|right|quad)\b|[~\u2009\u202f\xa0]", " ", text)
    text = re.sub(r"\*\*|[{}$€£`]|(?<!\d)\s*\*|\*\s*(?!\d)", "", text)
    text = text.replace("−", "-")  # noqa: RUF001
    return re.sub(r"[¼-¾⅐-⅞]", _spelled, text).strip()


def _spelled_out(found: re.Match[str]) -> str:
    """A repeating decimal as a fraction: `0.1(6)` is 15/90."""
    whole, fixed, again = found[1] or "0", found[2], found[3] or found[4]
    top = int(whole + fixed + again) - int(whole + fixed)
    bottom = (10 ** len(again) - 1) * 10 ** len(fixed)
    return f"{top}/{bottom}"


def _spelled(sign: re.Match[str]) -> str:
    value = Fraction(unicodedata.numeric(sign[0])).limit_denominator(10)
    return f" {value}"
