"""The base of all sections of the configuration: strict models, validator errors, and declarations.

A dataclass of the lower packages states its fields, defaults, bounds and descriptions once
(``state.bounds``). ``setting`` takes a field from it into a section. ``ValueSection`` derives a whole
section, so that a field of type ``Annotated[Sealing, ValueSection(Sealing)]`` is written in the file as a
section and is a ``Sealing`` after reading.
"""

from __future__ import annotations

import dataclasses
import re
import sys
import types
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, dataclass, fields
from types import SimpleNamespace
from typing import (
    Annotated,
    Any,
    ClassVar,
    Generic,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    ValidationInfo,
    create_model,
    field_validator,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import PydanticCustomError, core_schema
from pydantic_core.core_schema import CoreSchema, ValidatorFunctionWrapHandler

from daemon.config.quantities import pattern_of, read_quantity, unit_of
from state.bounds import bounds_of, read_descriptions
from state.errors import ConfigError


T = TypeVar("T")
_ANNOTATIONS = frozenset({"title", "description", "default"})
"""Parts of a setting's JSON schema that hold for all its written forms."""


class Section(BaseModel):
    """A section of the configuration: refuses unknown keys and changes of values."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True, allow_inf_nan=False)
    renamed: ClassVar[Mapping[str, str]] = {}
    """Former names of settings, with the current ones. Tideline still reads a former name, with a warning."""

    @field_validator("*", mode="before")
    @classmethod
    def _read_quantity(cls, value: Any, info: ValidationInfo) -> Any:
        """Read sizes and durations, such as ``512MiB`` and ``1h30m``, in the unit of the setting's name."""
        return read_quantity(unit_of(info.field_name or ""), value)

    @classmethod
    def __get_pydantic_json_schema__(cls, core: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        schema = handler(core)
        for name, field in handler.resolve_ref_schema(schema).get("properties", {}).items():
            if (unit := unit_of(name)) is not None:
                text = {"type": "string", "pattern": pattern_of(unit)}
                rule = {key: field.pop(key) for key in tuple(field) if key not in _ANNOTATIONS}
                field["anyOf"] = [*rule.pop("anyOf", [rule]), text]
        return schema


def refused(message: str) -> PydanticCustomError:
    """Return the error that a validator raises; ``message`` follows the setting in the output.

    The message is data, so that braces in it are not format fields.
    """
    return PydanticCustomError("setting", "{message}", {"message": message})


def matching(pattern: str, rule: str) -> AfterValidator:
    """Return a check that the whole text matches ``pattern``; ``rule`` describes the pattern."""

    def check(text: str) -> str:
        if not re.fullmatch(pattern, text):
            raise refused(rule)
        return text

    return AfterValidator(check)


@dataclass(frozen=True, slots=True)
class ConfigSection(Generic[T]):
    """A top-level section that a capability adds to the configuration.

    The process composes the configuration's class when it starts, so a type checker cannot see the attribute;
    ``of`` returns the section with its type.
    """

    key: str
    annotation: Any
    """Type of the section as pydantic reads it; its values have type ``T``."""
    field: Any
    """pydantic's ``Field``: default, bounds and description."""

    def of(self, config: BaseModel) -> T:
        """Return the section of ``config``."""
        found: T = getattr(config, self.key)
        return found


def setting(values: type[Any], name: str, *, note: str = "") -> Any:
    """Return the field ``name`` of a dataclass for a section, with its default, bounds and description."""
    (field,) = (each for each in fields(values) if each.name == name)
    bounds = bounds_of(values).get(name)
    limits = {key: getattr(bounds, key) for key in ("ge", "gt", "le", "lt")} if bounds else {}
    description = " ".join(filter(None, (read_descriptions(values).get(name), note)))
    return Field(default=field.default, description=description, **limits)


@dataclass(frozen=True, slots=True)
class Form:
    """The form of a field in the configuration file, if it differs from the field's value."""

    annotation: Any
    parse: Callable[[Any], Any]
    """Returns the value that a text stands for."""
    write: Callable[[Any], Any]
    """Returns the text of a value."""


class ValueSection:
    """Annotates a field that is a section in the file and an instance of ``values`` after reading."""

    def __init__(self, values: type[Any], *, renamed: Mapping[str, str] | None = None, **forms: Form) -> None:
        """``renamed`` becomes ``Section.renamed``; ``forms`` has the forms of fields by their names."""
        self._values = values
        self._forms = forms
        hints = _read_hints(values, [field.name for field in fields(values) if field.name not in forms])
        descriptions = read_descriptions(values)
        definitions: dict[str, Any] = {
            field.name: (
                forms[field.name].annotation if field.name in forms else hints[field.name],
                Field(default=self._default(field), description=descriptions.get(field.name)),
            )
            for field in fields(values)
        }
        self.model: type[Section] = create_model(
            f"{values.__name__}Config", __base__=Section, __doc__=values.__doc__, **definitions
        )
        self.model.renamed = renamed or {}

    def __get_pydantic_core_schema__(self, _source: object, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_wrap_validator_function(
            self._validate,
            handler.generate_schema(self.model),
            serialization=core_schema.plain_serializer_function_ser_schema(self._write),
        )

    def _default(self, field: dataclasses.Field[Any]) -> Any:
        if field.default is not MISSING:
            value = field.default
        elif field.default_factory is not MISSING:
            value = field.default_factory()
        else:
            return ...
        return self._forms[field.name].write(value) if field.name in self._forms else value

    def _validate(self, given: Any, validate: ValidatorFunctionWrapHandler) -> Any:
        if isinstance(given, self._values):
            return given
        section = validate(given)
        written = {field.name: getattr(section, field.name) for field in fields(self._values)}
        parsed = {name: form.parse(written[name]) for name, form in self._forms.items()}
        try:
            return self._values(**{**written, **parsed})
        except ConfigError as error:
            raise refused(error.message) from None

    def _write(self, value: Any) -> dict[str, Any]:
        plain = {field.name: getattr(value, field.name) for field in fields(self._values)}
        return {**plain, **{name: form.write(plain[name]) for name, form in self._forms.items()}}


def _read_hints(values: type[Any], names: list[str]) -> Mapping[str, Any]:
    """Evaluate the types of the named fields. Other fields may have types that only type checkers import."""
    annotations = {name: values.__annotations__[name] for name in names}
    module = vars(sys.modules[values.__module__])
    return get_type_hints(SimpleNamespace(__annotations__=annotations), globalns=module, include_extras=True)


def section_of(annotation: Any, metadata: Iterable[Any] = ()) -> tuple[type[BaseModel] | None, bool]:
    """Return the section that a field of this type holds, and whether it holds several named sections."""
    for each in metadata:
        if isinstance(each, ValueSection):
            return each.model, False
    if get_origin(annotation) is Annotated:
        return section_of(annotation.__origin__, annotation.__metadata__)
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation, False
    if get_origin(annotation) is dict:
        return section_of(get_args(annotation)[1])[0], True
    if get_origin(annotation) in {types.UnionType, Union}:
        return next(
            (found for found in map(section_of, get_args(annotation)) if found[0] is not None), (None, False)
        )
    return None, False
