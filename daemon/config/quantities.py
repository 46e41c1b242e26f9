"""Sizes and durations as text: ``512MiB``, ``1h30m``, ``7d``, in place of plain numbers.

The unit of a setting is the last part of its name (``record_bytes_max``, ``drain_s``, ``retention_days``), so
no other declaration is necessary. A plain number always has this unit. Printed values are valid input.
"""

from __future__ import annotations

import re
from typing import Any, Final

import click


_SUFFIX: Final = re.compile(r"(?:^|_)(bytes_per_s|bytes|ms|s|hours|days)(?:_max|_min)?$")
_POINTS_IN_TIME: Final = frozenset({"earliest_s"})
_SIZES: Final = {"B": 1} | {
    f"{prefix}{form}": base ** (power + 1)
    for base, forms in ((1024, ("iB", "i")), (1000, ("B",)))
    for form in forms
    for power, prefix in enumerate("KMGT")
}
_TIMES_MS: Final = {"d": 86_400_000, "h": 3_600_000, "m": 60_000, "min": 60_000, "s": 1000, "ms": 1}
_OF_TIME_MS: Final = {"ms": 1, "s": 1000, "hours": 3_600_000, "days": 86_400_000}
_NUMBER: Final = r"\d{1,18}(?:\.\d{1,6})?"
SIZE_PATTERN: Final = rf"^{_NUMBER} ?(?:{'|'.join(_SIZES)})$"
DURATION_PATTERN: Final = rf"^(?:{_NUMBER} ?(?:ms|min|d|h|m|s) ?)+$"
_PLAIN: Final = re.compile(r"-?\d{1,18}(\.\d+)?", re.ASCII)
_PART: Final = re.compile(rf"({_NUMBER}) ?([A-Za-z]+)")


def unit_of(name: str) -> str | None:
    """Return the unit of a setting: bytes, bytes_per_s, ms, s, hours or days; None if it has none of them."""
    suffix = _SUFFIX.search(name)
    return None if suffix is None or name in _POINTS_IN_TIME else suffix[1]


def pattern_of(unit: str) -> str:
    """Return the pattern of the texts that ``read_quantity`` reads for a unit."""
    return SIZE_PATTERN if unit.startswith("bytes") else DURATION_PATTERN


def example_of(unit: str) -> str:
    """Return the accepted text for a unit, with an example."""
    return "size such as 512MiB" if unit.startswith("bytes") else "duration such as 1h30m"


def read_quantity(unit: str | None, value: Any) -> Any:
    """Return a size or duration as a number in its unit; return any other value unchanged."""
    if unit is None or not isinstance(value, str) or not re.match(pattern_of(unit), value):
        return value
    sizes = _SIZES if unit.startswith("bytes") else _TIMES_MS
    total = sum(float(number) * sizes[name] for number, name in _PART.findall(value))
    quantity = total / _OF_TIME_MS.get(unit, 1)
    return int(quantity) if quantity.is_integer() else quantity


def quantity_text(name: str, value: Any) -> Any:
    """Return the value of a setting as a size or duration, or itself if that is not exact."""
    unit = unit_of(name)
    if unit is None or isinstance(value, bool) or not isinstance(value, int | float) or value <= 0:
        return value
    if unit.startswith("bytes"):
        sizes = ((f"{prefix}iB", 1024 ** (power + 1)) for power, prefix in reversed(list(enumerate("KMGT"))))
        return next((f"{value // size:.0f}{form}" for form, size in sizes if not value % size), value)
    rest, text = value * _OF_TIME_MS[unit], ""
    if not float(rest).is_integer():
        return value
    for form in ("d", "h", "m", "s", "ms"):
        count, rest = divmod(int(rest), _TIMES_MS[form])
        text += f"{count}{form}" if count else ""
    return text


class WholeNumber(click.IntRange):
    """A whole number as the value of an option or argument, with clearer errors than click's "not in the
    range x>=0".
    """

    name = "whole number"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the number; fail for any other text, and beyond the limits."""
        try:
            number = int(value)
        except ValueError:
            self.fail(f"{value} must be a whole number.", param, ctx)
        if self.min is not None and number < self.min:
            self.fail(f"{value} must be at least {self.min}.", param, ctx)
        if self.max is not None and number > self.max:
            self.fail(f"{value} must be at most {self.max}.", param, ctx)
        return number


class Quantity(click.FloatRange):
    """The value of an option in a unit: a number, a size or a duration."""

    def __init__(self, unit: str, least: float = 0, most: float | None = None) -> None:
        super().__init__(least, most)
        self._unit = unit
        self.name = "size" if unit == "bytes" else "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the number; fail for any other text, and beyond the limits."""
        read = read_quantity(self._unit, value)
        if isinstance(read, str) and not _PLAIN.fullmatch(read):
            self.fail(f"{value} must be a number or a {example_of(self._unit)}.", param, ctx)
        number = float(read)
        if self.min is not None and number < self.min:
            self.fail(f"{value} must be at least {self._text(self.min)}.", param, ctx)
        if self.max is not None and number > self.max:
            self.fail(f"{value} must be at most {self._text(self.max)}.", param, ctx)
        return int(number) if self._unit == "bytes" else number

    def _text(self, limit: float) -> Any:
        return quantity_text(f"limit_{self._unit}", limit)
