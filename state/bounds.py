"""Bounds and descriptions of settings: stated once, in the dataclass that holds them.

``Annotated[int, Interval(ge=1, le=60)]`` on a field bounds its value. The value checks itself with
``check_bounds``; pydantic reads the same annotations when it validates a configuration file, and the
documentation of the configuration shows them. A docstring below a field is its description there.
"""

from __future__ import annotations

import ast
import inspect
import sys
import textwrap
from dataclasses import fields
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final, get_type_hints

from state.errors import ConfigError


if TYPE_CHECKING:
    from collections.abc import Mapping

    from annotated_types import Interval


NUMBER_MAX: Final = 2**63 - 1
_BOUNDS: Final[dict[type[Any], Mapping[str, Interval]]] = {}


def bounds_of(settings: type[Any]) -> Mapping[str, Interval]:
    """Return the bounds of those fields of a dataclass that have any."""
    if settings not in _BOUNDS:
        _BOUNDS[settings] = _read_bounds(settings)
    return _BOUNDS[settings]


def check_bounds(settings: object) -> None:
    """Raise ConfigError for the first field that is out of bounds."""
    for name, bounds in bounds_of(type(settings)).items():
        value = getattr(settings, name)
        if not _is_within(value, bounds):
            sides = {"ge": bounds.ge, "gt": bounds.gt, "le": bounds.le, "lt": bounds.lt}
            limits: dict[str, Any] = {key: limit for key, limit in sides.items() if limit is not None}
            raise ConfigError("a setting is out of range", setting=name, value=value, **limits)


def read_descriptions(settings: type[Any]) -> Mapping[str, str]:
    """Return the docstrings below the fields of a class, by field, each on one line."""
    (definition,) = ast.parse(textwrap.dedent(inspect.getsource(settings))).body
    assert isinstance(definition, ast.ClassDef), settings
    texts = {}
    for statement, following in zip(definition.body, definition.body[1:], strict=False):
        match statement, following:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                texts[name] = " ".join(text.split())
    return texts


def _is_within(value: Any, bounds: Interval) -> bool:
    return (
        (bounds.ge is None or value >= bounds.ge)
        and (bounds.gt is None or value > bounds.gt)
        and (bounds.le is None or value <= bounds.le)
        and (bounds.lt is None or value < bounds.lt)
    )


def _read_bounds(settings: type[Any]) -> Mapping[str, Interval]:
    bounded = {
        field.name: field.type for field in fields(settings) if str(field.type).startswith("Annotated[")
    }
    # Evaluates bounded fields only: imports of other types may exist for type checkers alone.
    module = vars(sys.modules[settings.__module__])
    hints = get_type_hints(SimpleNamespace(__annotations__=bounded), globalns=module, include_extras=True)
    return {name: hint.__metadata__[0] for name, hint in hints.items()}
