"""Settings of the key log (its database and tables) and of mining (the sources of queries)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Final, Literal, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from daemon.config.crosscheck import missing_kafka
from daemon.config.fields import Bootstrap, FileLocation, Name, ObjectName, Secret, TableName, Topic, as_list
from daemon.config.section import ConfigSection, Section, matching, refused, setting
from state.errors import ConfigError
from streaming.mining.model import CATALOGS, CustomFunction, MiningRules


if TYPE_CHECKING:
    from collections.abc import Iterator

    from daemon.config.document import Document, Problem
    from state.columns.rules import FlatRules


ColumnTypeName = Literal["tinyint", "smallint", "int", "bigint", "double", "string", "boolean"]
"""The types of columns that users choose."""
_SCHEMES: Final = ("sqlite", "mysql", "mariadb", "postgresql")


@dataclass(frozen=True, slots=True)
class KeyedTable:
    """A flat table whose columns follow the keys that users query in a raw table."""

    table: str
    """``db.table``, as is ``raw_table``."""
    raw_table: str
    rules: FlatRules
    """As configured; decisions in the key log are added."""


def _check_url(text: str) -> str:
    try:
        parts = urlsplit(text)
        password = parts.password
    except ValueError:
        raise refused("must be the address of a database") from None
    if parts.scheme.partition("+")[0] not in _SCHEMES or len(parts.path) < 2:
        raise refused(
            "must be the address of a key log: sqlite:///FILE, mysql://USER@HOST/DATABASE, mariadb://… or "
            "postgresql://…"
        )
    if password is not None:
        raise refused("must not contain a password: set keylog.password to {file: PATH} or {env: NAME}")
    return text


KeylogUrl = Annotated[str, AfterValidator(_check_url)]


class KeylogConfig(Section):
    """The database of requested keys (docs/KEYS.md)."""

    url: KeylogUrl | None = Field(
        default=None,
        description="SQLAlchemy URL of the database, without a password; default: the file keylog.db in "
        "state.dir.",
    )
    password: Secret | None = Field(
        default=None, description="Password of the database's user: {file: PATH} or {env: NAME}."
    )
    retention_days: int = Field(
        default=400,
        ge=1,
        le=36_500,
        description="Requests older than this are deleted; must be at least every flat table's "
        "requested_days.",
    )


KEYLOG: Final[ConfigSection[KeylogConfig]] = ConfigSection(
    "keylog",
    KeylogConfig,
    Field(default=KeylogConfig(), description="The database of requested keys."),
)


FunctionName = Annotated[str, matching(r"[a-z_][a-z0-9_.]{0,127}", "must be a function name in lower case")]


class RawTableConfig(Section):
    """A table with a column of complete JSON events."""

    json_column: Annotated[
        str,
        matching(
            r"[a-z0-9_]{1,128}",
            "must be a column: lower-case letters, digits and '_', at most 128 characters",
        ),
    ] = Field(description="The column with the JSON text.")
    catalogs: Annotated[list[str], BeforeValidator(as_list)] = Field(
        default=[*CATALOGS],
        max_length=16,
        description="Catalogs in which engines see this table. A table of the same name in another catalog "
        "is a different table.",
    )
    location: FileLocation | None = Field(
        default=None, description="Directory of the table, used to recognize plans over its files."
    )
    views: Annotated[list[TableName], BeforeValidator(as_list)] = Field(
        default=[],
        max_length=1_000,
        description="Views of the table, as db.view; uses of a view count for the table.",
    )


class FunctionConfig(Section):
    """A custom function that extracts keys from JSON, such as event_parser(json, 'a.b', 'c')."""

    style: Literal["dotted", "jsonpath", "member"] = setting(CustomFunction, "style")
    document_argument: int = setting(CustomFunction, "document_argument")


class QuerySourceConfig(Section):
    """A source of users' queries."""

    kind: Literal["job-history", "spark-events", "sql-files", "trino"] = Field(
        description="'job-history' (MapReduce's configuration files), 'spark-events' (Spark's event logs), "
        "'sql-files' (a directory of SQL files and Python programs) or 'trino' (a topic of Trino's query "
        "events)."
    )
    path: FileLocation | None = Field(default=None, description="Directory of the files; not for 'trino'.")
    topic: Topic | None = Field(default=None, description="Topic of the events; only for 'trino'.")
    bootstrap: Bootstrap | None = Field(
        default=None, description="Brokers of the topic; default: kafka.bootstrap. Only for 'trino'."
    )
    user: str = Field(
        default="",
        max_length=128,
        description="User of the queries; only for 'sql-files', because the files do not name one.",
    )
    standing: bool = Field(
        default=True,
        description="Whether a file counts on every day on which it exists; otherwise it counts once after "
        "each change. Only for 'sql-files'.",
    )

    @model_validator(mode="after")
    def _fit(self) -> Self:
        if (self.topic if self.kind == "trino" else self.path) is None:
            raise refused(
                f"must have a {'topic' if self.kind == 'trino' else 'path'}, because its kind is {self.kind}"
            )
        return self


class MiningConfig(Section):
    """How to find keys in users' queries (docs/MINING.md)."""

    raw_tables: dict[TableName, RawTableConfig] = Field(
        default={}, max_length=1_000, description="Tables of raw JSON events, as db.table."
    )
    functions: dict[FunctionName, FunctionConfig] = Field(
        default={}, max_length=1_000, description="Custom functions that extract keys from JSON, by name."
    )
    sources: dict[Name, QuerySourceConfig] = Field(
        default={},
        max_length=64,
        description="Sources of queries, by name. The key log stores a position for each.",
    )
    default_database: ObjectName = setting(MiningRules, "default_database")
    every_s: float | None = Field(
        default=None,
        ge=1,
        le=86_400,
        description="How often the daemon reads the new queries of all sources; default: never (use "
        "'tideline keys mine').",
    )

    @model_validator(mode="after")
    def _have_something(self) -> Self:
        for name, entries in (("raw_tables", self.raw_tables), ("sources", self.sources)):
            if self.every_s is not None and not entries:
                raise refused(f"must have {name}, because every_s is set")
        return self

    def rules(self) -> MiningRules:
        """Return the raw tables and functions for the miner; raise ConfigError without a raw table."""
        from streaming.mining.model import CustomFunction, MiningRules, RawTable, Style

        if not self.raw_tables:
            raise ConfigError(
                "no raw table is configured for mining",
                hint="List the tables of raw JSON events under mining.raw_tables.",
            )
        tables = tuple(
            RawTable(name, raw.json_column, frozenset(raw.catalogs), raw.location, frozenset(raw.views))
            for name, raw in self.raw_tables.items()
        )
        functions = tuple(
            CustomFunction(name, Style(function.style), function.document_argument)
            for name, function in self.functions.items()
        )
        return MiningRules(tables, functions, self.default_database)


MINING: Final[ConfigSection[MiningConfig]] = ConfigSection(
    "mining",
    MiningConfig,
    Field(default=MiningConfig(), description="Where Tideline finds users' queries."),
)


def cross_problems(document: Document) -> Iterator[Problem]:
    """Yield every problem between settings."""
    mining = document.values.get("mining")
    queries = mining.get("sources") if isinstance(mining, dict) else None
    sources = queries.values() if isinstance(queries, dict) else ()
    if any(
        isinstance(source, dict) and source.get("kind") == "trino" and "bootstrap" not in source
        for source in sources
    ):
        yield from missing_kafka(document)
