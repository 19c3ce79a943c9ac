"""Reading answers: where in a text the final answer stands, and which number it is, exactly.

Values are fractions: nothing is rounded, so 0.333 is not 1/3. What could be read in two ways is
read in none.
"""

from __future__ import annotations

import re
import unicodedata
from fractions import Fraction

_SAID = re.compile(r"(?:final\s+)?answer\b\W{0,4}?(?:is\b|[:=])[ \t]*(\S[^\n]*)", re.IGNORECASE)
_UNSIGNED = r"(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?|\.\d+"
_NUMBER = re.compile(
    rf"(?P<sign>[+-]\s*)?(?:(?P<whole>\d+)\s+(?=\d+\s*/))?(?P<top>{_UNSIGNED})"
    rf"(?:\s*/\s*(?P<bottom>{_UNSIGNED})|e(?P<exponent>[+-]?\d{{1,3}}))?",
    re.IGNORECASE,
)
_MAX_DIGITS = 200
"""Longer texts are no answers, and big integers are slow to read."""


def final_answer(text: str) -> str | None:
    r"""The answer that a text commits itself to; None if it does not.

    The last `\boxed{…}`, else what follows the last "answer is" or "answer:" on its line.
    """
    boxed = _last_boxed(text)
    if boxed is not None:
        return boxed
    said = _SAID.findall(text.replace("*", "").replace("_", " "))
    return said[-1].strip() if said else None


def _last_boxed(text: str) -> str | None:
    r"""What stands in the last `\boxed{…}` that is closed; braces in it are balanced."""
    end = len(text)
    while (start := text.rfind(r"\boxed", 0, end)) >= 0:
        end = start
        opened = re.match(r"\\boxed\s*\{", text[start:])
        if opened is None:
            continue
        depth, begin = 1, start + opened.end()
        for at in range(begin, len(text)):
            depth += {"{": 1, "}": -1}.get(text[at], 0)
            if depth == 0:
                return text[begin:at].strip()
    return None


def exact_value(text: str) -> Fraction | None:
    r"""The one number in an answer; None if there is none, or more than one.

    Reads integers, decimals, thousands commas, fractions (`3/4`, `1 3/4`, `\frac{3}{4}`, `¾`),
    per cent (`12.5%` is 1/8), powers of ten (`1.2e3`), with a currency sign or a unit around it;
    of an equation the right-hand side.
    """
    if len(text) > _MAX_DIGITS:
        return None
    plain = _plain(text)
    plain = re.sub(r"(?<!\.)\.$", "", plain.rsplit("=", 1)[-1].strip())
    found = _NUMBER.search(plain)
    if found is None:
        return None
    before, after = plain[: found.start()], plain[found.end() :]
    if re.search(r"[\d,.]$|[\w.]$", before) or re.match(r"[\d,.]*\d|\.\.|…|/|\^|\*", after):
        return None  # part of a word or of a number that is written in an unknown way
    if any(sign.isdigit() for sign in before + after):
        return None
    value = _as_fraction(found)
    if value is not None and re.match(r"\s*(%|per\s?cent)", after, re.IGNORECASE):
        value /= 100
    return value


def is_none(text: str) -> bool:
    """True for an answer that says there is none, in the word `None`."""
    return len(text) <= _MAX_DIGITS and _plain(text).strip(" .").lower() == "none"


def is_right(given: str, expected: str, *, decimals: int | None = None) -> bool:
    """True if `given` has exactly the value of `expected`, or both are `None`.

    Where a percentage is asked for, one without its sign is right too. With `decimals` the
    expected value was rounded to so many, and what rounds to it is right.
    """
    if is_none(expected):
        return is_none(given)
    value, right = exact_value(given), exact_value(expected)
    if value is None or right is None:
        return False
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
    text = re.sub(r"\\[dt]?frac\s*\{([^{}]*)\}\s*\{([^{}]*)\}", r" \1/\2 ", text)
    text = re.sub(r"\\[dt]?frac\s*(\d)\s*(\d)", r" \1/\2 ", text)
    text = re.sub(r"\\(?:text|mathrm|mbox|textbf|mathbf)\s*\{([^{}]*)\}", r" \1 ", text)
    text = text.replace("{,}", ",").replace(r"\%", "%").replace(r"\$", "$")
    text = re.sub(r"\\[,;:! ]|\\(?:left|right|quad)\b|[{}$€£*`~]", "", text)
    text = text.replace("−", "-").replace("\u2009", "").replace("\u202f", "").replace("\xa0", " ")  # noqa: RUF001
    return re.sub(r"[¼-¾⅐-⅞]", _spelled, text).strip()


def _spelled(sign: re.Match[str]) -> str:
    value = Fraction(unicodedata.numeric(sign[0])).limit_denominator(10)
    return f" {value}"
