"""Units of measurement in answers: enough to tell 12 km from 12 m, and that 90 min are 1.5 h.

Factors are exact. A unit that is not known is none: "12 apples" is 12, and so is "12 oranges".
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from fractions import Fraction
from typing import NamedTuple

MONEY = "money"
"""The dimension of cents, which are a hundredth of whatever currency is meant."""


class Unit(NamedTuple):
    """So many of the base unit of a dimension; that of a speed is `length per time`."""

    factor: Fraction
    dimension: str

    def same_kind(self, other: Unit) -> bool:
        """True if values in these two units can be equal."""
        if MONEY in (self.dimension, other.dimension):
            return self.dimension.startswith(MONEY) and other.dimension.startswith(MONEY)
        return self.dimension == other.dimension


def _units() -> Iterator[tuple[str, Unit]]:
    tables: dict[str, dict[str, str]] = {
        "length": {
            "mm millimetre millimeter": "1/1000",
            "cm centimetre centimeter": "1/100",
            "dm decimetre decimeter": "1/10",
            "m metre meter": "1",
            "km kilometre kilometer": "1000",
            "inch inches": "127/5000",
            "ft foot feet": "381/1250",
            "yd yard": "1143/1250",
            "mi mile": "201168/125",
        },
        "mass": {
            "mg milligram milligramme": "1/1000000",
            "g gram gramme": "1/1000",
            "kg kilogram kilogramme": "1",
            "tonne": "1000",
            "oz ounce": "45359237/1600000000",
            "lb lbs": "45359237/100000000",
        },
        "time": {
            "ms millisecond": "1/1000",
            "s sec second": "1",
            "min minute": "60",
            "h hr hrs hour": "3600",
            "day": "86400",
            "week": "604800",
        },
        "volume": {
            "ml millilitre milliliter": "1/1000",
            "cl centilitre centiliter": "1/100",
            "l litre liter": "1",
        },
        f"{MONEY}/usd": {"$ dollar usd": "1"},
        f"{MONEY}/eur": {"€ euro eur": "1"},
        f"{MONEY}/gbp": {"£ gbp": "1"},
        MONEY: {"¢ cent ct": "1/100"},
    }
    for dimension, table in tables.items():
        for names, factor in table.items():
            for name in names.split():
                unit = Unit(Fraction(factor), dimension)
                yield name, unit
                if len(name) > 2:
                    yield f"{name}s", unit


UNITS = dict(_units())
_EXPRESSION = re.compile(
    r"(?P<name>[A-Za-z]+|[¢€£$])(?:\s*\^?\s*(?P<power>[23²³]))?(?:\s*(?:/|\bper\b)\s*(?P<per>[A-Za-z]+))?"
)


def unit_of(text: str) -> Unit | None:
    """The unit that a text is, such as `km/h` or `cm^2`; None if it is none that is known."""
    found = _EXPRESSION.fullmatch(text.strip().rstrip("."))
    if found is None:
        return None
    unit = _named(found["name"])
    if unit is None:
        return None
    if found["power"]:
        power = {"2": 2, "3": 3, "²": 2, "³": 3}[found["power"]]
        unit = Unit(unit.factor**power, f"{unit.dimension}^{power}")
    if found["per"]:
        per = _named(found["per"])
        if per is None:
            return None
        unit = Unit(unit.factor / per.factor, f"{unit.dimension} per {per.dimension}")
    return unit


def _named(name: str) -> Unit | None:
    return UNITS.get(name) or (UNITS.get(name.lower()) if len(name) > 2 else None)
