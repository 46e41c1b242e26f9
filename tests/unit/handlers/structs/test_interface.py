"""Every declared struct, enum and call equals that of Hive, version by version.

The facts below ``tests/data/idl`` were read off the classes of the real metastores.
"""

from __future__ import annotations

import json
from enum import IntEnum
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import Any

import pytest
from thrift.Thrift import TType

import handlers.structs as declared
from dev.fixtures.writing_client import WritingMetastore
from handlers.metastore.calls import DECLARED, Call, HiveVersion
from handlers.structs.exceptions import HiveException
from handlers.structs.struct import Field, Struct, WireType
from streaming.table.catalog import HiveCatalog


DATA = Path(__file__).parents[3] / "data" / "idl"
HIVE_VERSIONS = ("2.3", "3.1", "4.0", "4.1", "4.2")
FACTS: dict[str, Any] = {name: json.loads((DATA / f"hive-{name}.json").read_text()) for name in HIVE_VERSIONS}
MODULES = [import_module(f"{declared.__name__}.{found.name}") for found in iter_modules(declared.__path__)]
CLASSES = {
    name: cls
    for module in MODULES
    for name, cls in vars(module).items()
    if isinstance(cls, type) and cls.__module__ == module.__name__
}
STRUCTS = {
    cls.__name__: cls
    for cls in [*Struct.__subclasses__(), *HiveException.__subclasses__()]
    if cls.__module__.startswith(declared.__name__) and cls is not HiveException
}
ENUMS = {name: cls for name, cls in CLASSES.items() if issubclass(cls, IntEnum)}

SPELLINGS = {
    TType.BOOL: "bool",
    TType.BYTE: "i8",
    TType.I16: "i16",
    TType.I32: "i32",
    TType.I64: "i64",
    TType.DOUBLE: "double",
    TType.STRING: "string",
    TType.LIST: "list",
    TType.SET: "set",
    TType.MAP: "map",
}

# Hive 2.3 used these numbers for other fields; the later meaning is declared.
REUSED = {("2.3", "Table", 16), ("2.3", "InsertEventRequestData", 1), ("2.3", "InsertEventRequestData", 2)}
CALLED_TEXT = ("2.3", "bitVectors")  # bytes on the wire in any case
INHERITED_OF_FACEBOOK_303 = {"getVersion"}
ADDED_BY_VENDORS = {
    ("3.1", "get_all_write_event_info"),
    ("3.1", "get_max_allocated_table_write_id"),
}
"""Calls that some builds of a version have, although Apache's does not: their metastore is asked."""


def idl(field: Field) -> str:
    return field.enum.__name__ if field.enum else spell(field.wire)


def spell(wire: WireType) -> str:
    """Return the type as Thrift's interface language spells it."""
    if wire.elements:
        return f"{SPELLINGS[wire.ttype]}<{','.join(map(spell, wire.elements))}>"
    if wire.is_struct:
        return str(wire.python.__name__)
    return "binary" if wire.is_binary else SPELLINGS[wire.ttype]


def without_enums(kind: str) -> str:
    return kind.replace("list<ClientCapability>", "list<i32>")


@pytest.mark.parametrize("version", HIVE_VERSIONS)
def test_every_field_that_hive_has_is_declared_with_its_number_and_type(version: str) -> None:
    for name, facts in FACTS[version]["structs"].items():
        if name not in STRUCTS:
            continue
        fields = {f.number: f for f in STRUCTS[name].fields}
        for number, field_name, kind, _ in facts:
            if (version, name, number) not in REUSED and (version, field_name) != CALLED_TEXT:
                assert number in fields, (name, number, field_name)
                assert (fields[number].name, idl(fields[number])) == (field_name, without_enums(kind)), name


def test_every_declared_field_exists_in_some_hive_version() -> None:
    known = {
        (name, number, field)
        for facts in FACTS.values()
        for name, fields in facts["structs"].items()
        for number, field, *_ in fields
    }
    ours = {(name, f.number, f.name) for name, cls in STRUCTS.items() for f in cls.fields}
    assert ours <= known


def test_a_field_that_every_hive_version_requires_has_no_default() -> None:
    for name, cls in STRUCTS.items():
        of_all = [
            {f[1]: f[3] for f in facts["structs"][name]}
            for facts in FACTS.values()
            if name in facts["structs"]
        ]
        for field in cls.fields:
            if all(fields.get(field.name) == "required" for fields in of_all):
                assert field.required, (name, field.name)


@pytest.mark.parametrize("version", HIVE_VERSIONS)
def test_every_constant_of_the_enums_is_declared(version: str) -> None:
    for name, constants in FACTS[version]["enums"].items():
        ours = {member.name: member.value for member in ENUMS[name]}
        assert ours.items() >= constants.items(), name


@pytest.mark.parametrize("version", HIVE_VERSIONS)
def test_a_call_is_available_in_exactly_the_hive_versions_that_have_it(version: str) -> None:
    assert WritingMetastore is not None  # its modules declare the calls
    assert HiveCatalog is not None
    here = HiveVersion(*map(int, version.split(".")))
    for name, call in DECLARED.items():
        if name not in INHERITED_OF_FACEBOOK_303:
            exists = name in FACTS[version]["calls"] or (version, name) in ADDED_BY_VENDORS
            assert call.exists_in(here) == exists, (name, version)


@pytest.mark.parametrize("version", HIVE_VERSIONS)
def test_arguments_answers_and_exceptions_of_calls_are_those_of_hive(version: str) -> None:
    for name, facts in FACTS[version]["calls"].items():
        call = DECLARED[name]
        if not isinstance(call, Call):
            continue
        assert shape(call.arguments_struct) == [(n, f, k) for n, f, k in facts["args"]], name
        answers = {(number, kind) for number, _, kind in facts["result"]}
        ours = {(number, kind) for number, _, kind in shape(call.answer_struct)}
        assert {kind for number, kind in ours if number == 0} == {
            kind for number, kind in answers if number == 0
        }
        assert ours >= answers or (version, name) == ("2.3", "get_partition_names"), name


def shape(cls: type[Struct]) -> list[tuple[int, str, str]]:
    return [(f.number, f.name, idl(f)) for f in cls.fields]
