"""Parameters in the query of a request: the fields of a dataclass, read by pydantic.

The class declares each parameter once, with its type, limits, default and description. The route, the
description of the API and the client of the command line follow from it.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, TypeVar

from annotated_types import MaxLen

from state.bounds import read_descriptions
from state.errors import BadInput


if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from dataclasses import Field

    from pydantic import ConfigDict, TypeAdapter


CHARACTERS_MAX: Final = 512
LongText = Annotated[str, MaxLen(8_000)]
"""Longer than a name. The head of a request may have 16 KiB."""
_PATH: Final = "name"
_ALIAS: Final = "alias"
"""In the metadata of a field: its name in requests, if another one, as pydantic reads it."""
_SHOWN: Final = 100
_ADAPTERS: Final[dict[type[Parameters], TypeAdapter[Any]]] = {}


@dataclass(frozen=True)
class Parameters:
    """No parameters; the base of classes that have some. A field ``name`` is the one of the path.

    Commands construct these classes too, so pydantic is only imported to read and to describe them.
    """

    __pydantic_config__: ClassVar[ConfigDict] = {"str_max_length": CHARACTERS_MAX, "allow_inf_nan": False}


P = TypeVar("P", bound=Parameters)


def read_parameters(kind: type[P], given: Mapping[str, str], **path: str) -> P:
    """Return the parameters of a request, together with those in its path; raise BadInput."""
    from pydantic import ValidationError

    refuse_unknown(kind, given)
    try:
        found: P = _adapter_of(kind).validate_python({**given, **path})
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        name = str(first["loc"][0])
        value = given[name][:_SHOWN] if name in given else None
        raise BadInput(f"{name}: {first['msg']}", parameter=name, value=value) from None
    return found


def refuse_unknown(kind: type[Parameters], given: Iterable[str]) -> None:
    """Raise BadInput if a request has a parameter that the class does not have."""
    known = fields_of(kind)
    for name in given:
        if name not in known:
            raise BadInput("unknown parameter", parameter=name[:_SHOWN], known=sorted(known))


def write_parameters(parameters: Parameters) -> dict[str, str]:
    """Return the parameters as a request has them, without those that have their default."""
    values = _adapter_of(type(parameters)).dump_python(parameters, by_alias=True, exclude_defaults=True)
    return {
        name: str(value).lower() if isinstance(value, bool) else str(value)
        for name, value in values.items()
        if name != _PATH
    }


def fields_of(kind: type[Parameters]) -> dict[str, Field[Any]]:
    """Return the fields by the names of the parameters in requests."""
    return {each.metadata.get(_ALIAS, each.name): each for each in fields(kind) if each.name != _PATH}


def describe_parameters(*kinds: type[Parameters]) -> list[dict[str, Any]]:
    """Return the parameters of an operation for the description of the API. A request has those of one of the
    kinds, so that a parameter is only required if there is no other kind.
    """
    described: dict[str, dict[str, Any]] = {}
    for kind in kinds:
        texts: dict[str, str] = {}
        for each in reversed(kind.__mro__[:-1]):
            texts |= read_descriptions(each)
        form = _adapter_of(kind).json_schema()
        for name, declared in fields_of(kind).items():
            schema = form["properties"][name]
            schema |= next((each for each in schema.pop("anyOf", []) if each != {"type": "null"}), {})
            described[name] = {
                "name": name,
                "in": "query",
                "required": len(kinds) == 1 and name in form.get("required", []),
                "description": texts.get(declared.name, ""),
                "schema": {
                    key: value for key, value in schema.items() if key != "title" and value is not None
                },
            }
    return list(described.values())


def _adapter_of(kind: type[Parameters]) -> TypeAdapter[Any]:
    from pydantic import TypeAdapter

    if kind not in _ADAPTERS:
        _ADAPTERS[kind] = TypeAdapter(kind)
    return _ADAPTERS[kind]
