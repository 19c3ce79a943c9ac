"""Checks that settings share: what a number may be, and of which class a part is."""

from __future__ import annotations

import math
from numbers import Integral, Real
from typing import Any

from rolecraft.errors import UsageError


def check_number(
    settings: object,
    name: str,
    *,
    least: float = -math.inf,
    above: float | None = None,
    most: float = math.inf,
    whole: bool = False,
    finite: bool = True,
) -> None:
    """Raise `UsageError` unless the setting is a number within these bounds.

    The strings that YAML makes of numbers such as `1e-6` are told so.
    """
    value: Any = getattr(settings, name)
    kind: Any = Integral if whole else Real
    if (
        isinstance(value, kind)
        and not isinstance(value, bool)
        and (math.isfinite(value) or not finite)
        and least <= value <= most
        and (above is None or value > above)
    ):
        return
    wanted = "a whole number" if whole else "a number"
    if above is not None:
        wanted += f" above {above}" + (f" and at most {most}" if most < math.inf else "")
    else:
        wanted += f" from {least}" + (f" to {most}" if most < math.inf else "")
    hint = ""
    if isinstance(value, str) and _is_number(value):
        hint = " It is text: YAML wants a dot in such a number, as in `1.0e-6`."
    raise UsageError(f"`{_name(settings, name)}` wants {wanted}, got {value!r}.{hint}")


def check_flag(settings: object, name: str) -> None:
    """Raise `UsageError` unless the setting is True or False."""
    if not isinstance(getattr(settings, name), bool):
        raise UsageError(
            f"`{_name(settings, name)}` is True or False, got {getattr(settings, name)!r}."
        )


def check_part(settings: object, name: str, *kinds: type, optional: bool = False) -> None:
    """Raise `UsageError` unless the setting is of one of these classes (or None, if optional)."""
    value = getattr(settings, name)
    if not isinstance(value, kinds) and not (optional and value is None):
        listed = " or ".join(f"`{kind.__name__}`" for kind in kinds)
        raise UsageError(
            f"`{_name(settings, name)}` wants {listed}{' or None' if optional else ''}, got "
            f"{value!r}."
        )


def _name(settings: object, name: str) -> str:
    return f"{type(settings).__name__}({name}=...)"


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
