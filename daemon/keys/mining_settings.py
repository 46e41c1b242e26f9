"""The settings of mining: which tables hold raw JSON, and where the queries are found that ask for it."""

from __future__ import annotations

import re
from typing import Annotated, Final, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from daemon.catalog.settings import TableName
from daemon.config.fields import Bootstrap, Name, ObjectName, Place, Topic, as_list
from daemon.config.section import Section, refused


_COLUMN: Final = re.compile(r"[a-z0-9_]{1,128}")
_FUNCTION: Final = re.compile(r"[a-z_][a-z0-9_.]{0,127}")


def _check_column(text: str) -> str:
    if not _COLUMN.fullmatch(text):
        raise refused("is no column: lower-case letters, digits and '_', 128 characters at most")
    return text


def _check_function(text: str) -> str:
    if not _FUNCTION.fullmatch(text):
        raise refused("is no function: a name in lower case is wanted")
    return text


FunctionName = Annotated[str, AfterValidator(_check_function)]


class RawTableConfig(Section):
    """A table whose column holds whole JSON events."""

    json_column: Annotated[str, AfterValidator(_check_column)] = Field(
        description="The column with the JSON text."
    )
    catalogs: Annotated[list[str], BeforeValidator(as_list)] = Field(
        default=["hive", "spark_catalog"],
        max_length=16,
        description="Catalogs through which engines see this table; another catalog's table of the name is another.",
    )
    location: Place | None = Field(
        default=None, description="Its directory, by which plans over files are recognised as being about it."
    )
    views: Annotated[list[TableName], BeforeValidator(as_list)] = Field(
        default=[], max_length=1_000, description="Views over it, as db.view: uses of them are counted."
    )


class FunctionConfig(Section):
    """A function of your own that takes keys out of JSON, such as event_parser(json, 'a.b', 'c')."""

    style: Literal["dotted", "jsonpath", "member"] = Field(
        default="dotted",
        description="How its arguments name keys: 'dotted' (a.b), 'jsonpath' ($.a.b) or 'member' (one top-level name).",
    )
    document_argument: int = Field(
        default=0,
        ge=0,
        le=64,
        description="Which argument, counted from 0, is the JSON; all literals after it are keys.",
    )


class QuerySourceConfig(Section):
    """A place where queries that people ran are found."""

    kind: Literal["job-history", "spark-events", "sql-files", "trino"] = Field(
        description="'job-history' (MapReduce's configuration files), 'spark-events' (Spark's event logs), 'sql-files' "
        "(a directory of .sql files) or 'trino' (a topic of Trino's query events)."
    )
    path: Place | None = Field(default=None, description="Directory of the files; not for 'trino'.")
    topic: Topic | None = Field(default=None, description="Topic of the events; only for 'trino'.")
    bootstrap: Bootstrap | None = Field(
        default=None, description="Brokers of the topic; not given: kafka.bootstrap. Only for 'trino'."
    )
    user: str = Field(
        default="",
        max_length=128,
        description="Who is taken to ask; only for 'sql-files', whose files do not tell.",
    )
    standing: bool = Field(
        default=True,
        description="Whether a file counts on every day on which it lies there, else once when it changes; only for 'sql-files'.",
    )

    @model_validator(mode="after")
    def _fit(self) -> Self:
        if (self.topic if self.kind == "trino" else self.path) is None:
            raise refused(f"is of kind {self.kind} and has no {'topic' if self.kind == 'trino' else 'path'}")
        return self


class MiningConfig(Section):
    """How keys are found in the queries that people run (docs/MINING.md)."""

    raw_tables: dict[TableName, RawTableConfig] = Field(
        default={}, max_length=1_000, description="Tables of raw JSON events, as db.table."
    )
    functions: dict[FunctionName, FunctionConfig] = Field(
        default={}, max_length=1_000, description="Functions of your own that take keys out of JSON, by name."
    )
    sources: dict[Name, QuerySourceConfig] = Field(
        default={},
        max_length=64,
        description="Places where queries are found, by name; each has a position in the key log.",
    )
    default_database: ObjectName = Field(
        default="default", description="Database of table names without one, where the source does not tell."
    )
    every_s: float | None = Field(
        default=None,
        ge=1,
        le=86_400,
        description="How often the daemon reads what is new in all sources; not given: it does not, and 'tideline keys mine' has to.",
    )

    @model_validator(mode="after")
    def _have_something(self) -> Self:
        for name, found in (("raw_tables", self.raw_tables), ("sources", self.sources)):
            if self.every_s is not None and not found:
                raise refused(f"has every_s, and nothing under {name}")
        return self
