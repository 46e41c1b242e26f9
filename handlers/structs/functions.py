"""Permanent functions, with the files that contain their code."""
# ruff: noqa: N815, TC001 - field names are those of Hive's interface; annotations are read at run time

from __future__ import annotations

from enum import IntEnum
from typing import Annotated

from handlers.structs.objects import PrincipalType
from handlers.structs.struct import Struct, i32, resolve


class FunctionType(IntEnum):
    """The language of a function."""

    JAVA = 1


class ResourceType(IntEnum):
    """The kind of a file that a function needs."""

    JAR = 1
    FILE = 2
    ARCHIVE = 3


class ResourceUri(Struct):
    """A file that a function needs."""

    resourceType: Annotated[i32 | None, 1, ResourceType] = None
    uri: Annotated[str | None, 2] = None


class Function(Struct):
    """A permanent function of a database."""

    functionName: Annotated[str | None, 1] = None
    dbName: Annotated[str | None, 2] = None
    className: Annotated[str | None, 3] = None
    ownerName: Annotated[str | None, 4] = None
    ownerType: Annotated[i32 | None, 5, PrincipalType] = None
    createTime: Annotated[i32 | None, 6] = None
    functionType: Annotated[i32 | None, 7, FunctionType] = None
    resourceUris: Annotated[list[ResourceUri] | None, 8] = None
    catName: Annotated[str | None, 9] = None


resolve()
