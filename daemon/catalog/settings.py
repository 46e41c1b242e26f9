"""Settings of the catalog (section ``catalog``): which tables of a source have timelines or are indexed, and publishing."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Final, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from daemon.config.crosscheck import entries, problem
from daemon.config.fields import Name, QualifiedPatterns, as_list
from daemon.config.section import ConfigSection, Section, refused
from state.errors import BadInput, ConfigError
from state.timelines.periods import UpdatePeriod
from state.timelines.storage_forms import find_form


if TYPE_CHECKING:
    from collections.abc import Iterator

    from daemon.config.document import Document
    from daemon.config.problem import Problem


_HBASE_TABLE: Final = re.compile(r"([A-Za-z0-9_]{1,100}:)?[A-Za-z0-9_][A-Za-z0-9_.-]{0,199}")
_COLUMN: Final = re.compile(r"[A-Za-z0-9_]{1,128}")


def _check_hbase_table(text: str) -> str:
    if not _HBASE_TABLE.fullmatch(text):
        raise refused(
            "must be an HBase table: letters, digits, '_', '-' and '.', optionally after a namespace and ':'"
        )
    return text


def _check_column(text: str) -> str:
    if not _COLUMN.fullmatch(text):
        raise refused("must be a column name: letters, digits and '_', at most 128 characters")
    return text


def _check_period(text: str) -> str:
    try:
        return UpdatePeriod.from_lens_name(text).name
    except BadInput as error:
        raise refused(f"must be an update period: one of {error.context['known']}") from None


def _check_form(text: str) -> str:
    try:
        return find_form(text).name
    except ConfigError as error:
        raise refused(f"must be a storage form: one of {error.context['known']}") from None


Columns = Annotated[list[Annotated[str, AfterValidator(_check_column)]], BeforeValidator(as_list)]
Periods = Annotated[list[Annotated[str, AfterValidator(_check_period)]], BeforeValidator(as_list)]
FormName = Annotated[str, AfterValidator(_check_form)]
HBaseTable = Annotated[str, AfterValidator(_check_hbase_table)]


class TimelineRule(Section):
    """How the tables that fit are followed; the first rule that fits a table counts."""

    tables: QualifiedPatterns = Field(
        min_length=1,
        max_length=1000,
        description="QualifiedPatterns of tables, db.table with '*', '?' or '[...]'.",
    )
    columns: Columns = Field(
        default=[],
        max_length=100,
        description="Partition columns that hold time. Not given: those that the table names itself "
        "(cube.storagetable.time.partcols), else every column whose values are strictly times.",
    )
    periods: Periods = Field(
        default=[],
        max_length=10,
        description="Update periods that values may have, tried in this order. Not given: a partition's own parameter, else "
        "the form of its value decides, which takes quarters for months.",
    )
    iso_weeks: bool = Field(
        default=False,
        description="Whether weeks are those of ISO 8601; else they start on Sunday, as in Lens.",
    )
    form: FormName = Field(
        default="ends-and-holes",
        description="Storage form of timelines in table properties: ends-and-holes, ranges or store-all.",
    )
    jump_max: int | None = Field(
        default=None,
        ge=1,
        le=1_000_000_000,
        description="Distance, in partitions, from all others at which a value is refused; not given: 20 years.",
    )


class PublishConfig(Section):
    """Writing timelines back into table properties, for Lens to read."""

    enabled: bool = Field(default=False, description="Whether timelines are written at all.")
    target: Name | None = Field(
        default=None,
        description="Target whose tables are written, under the databases' names there; not given: the source's own tables.",
    )
    delay_s: float = Field(
        default=10,
        ge=0,
        le=86_400,
        description="How long changes of a table are collected before it is written.",
    )


class HBaseConfig(Section):
    """An HBase table, through a Thrift gateway (version 1, buffered transport)."""

    host: str = Field(min_length=1, max_length=253, description="Host of the gateway.")
    port: int = Field(default=9090, ge=1, le=65_535, description="Port of the gateway.")
    table: HBaseTable = Field(
        default="tideline",
        description="Table that holds the index, [namespace:]name; made where it is missing. One table for one source.",
    )
    timeout_s: float = Field(default=30, gt=0, le=600, description="Time for one message.")


class PartitionsConfig(Section):
    """Which tables are in the partition index; none where the section is missing."""

    tables: QualifiedPatterns = Field(
        default=["*.*"],
        min_length=1,
        max_length=1000,
        description="QualifiedPatterns of tables, db.table with '*', '?' or '[...]'; those without partition columns are left out.",
    )
    exclude: QualifiedPatterns = Field(
        default=[], max_length=1000, description="QualifiedPatterns of tables that are not indexed after all."
    )
    store: Literal["sqlite", "hbase"] = Field(
        default="sqlite", description="Where the index lives: the catalog's own file, or HBase."
    )
    hbase: HBaseConfig | None = Field(default=None, description="Required if the store is HBase.")
    read_expressions: bool = Field(
        default=False,
        description="Whether the expressions of get_partitions_by_expr are read, by a Java process of few rights (needs Java and "
        "PySpark); else the answer to them is all partitions, some of which may not match.",
    )

    @model_validator(mode="after")
    def _check_store(self) -> Self:
        if (self.store == "hbase") != (self.hbase is not None):
            raise refused("store 'hbase' and the section 'hbase' go together")
        return self


class CatalogConfig(Section):
    """Which tables of the source of this name have timelines, and which are in the partition index."""

    lens: bool = Field(
        default=True,
        description="Whether tables that name their time columns (cube.storagetable.time.partcols) are followed without a rule.",
    )
    rules: dict[Name, TimelineRule] = Field(default={}, max_length=1000, description="Further tables.")
    exclude: QualifiedPatterns = Field(
        default=[], max_length=1000, description="QualifiedPatterns of tables that are never followed."
    )
    publish: PublishConfig = Field(
        default=PublishConfig(), description="Writing timelines back into table properties."
    )
    partitions: PartitionsConfig | None = Field(
        default=None, description="The partition index; not given: no table is indexed."
    )


CATALOG: Final[ConfigSection[dict[str, CatalogConfig]]] = ConfigSection(
    "catalog",
    dict[Name, CatalogConfig],
    Field(default={}, max_length=64, description="Timelines and partition indexes, by source."),
)


def cross_problems(document: Document) -> Iterator[Problem]:
    """Yield every problem between settings."""
    yield from _unknown_catalogs(document)


def _unknown_catalogs(document: Document) -> Iterator[Problem]:
    """Catalogs are named by their source; they may write to a target."""
    sources, targets = (
        [name for name, _ in entries(document, section)] for section in ("sources", "targets")
    )
    for name, catalog in entries(document, "catalog"):
        if name not in sources:
            hint = f"there are: {', '.join(sources) or 'none'}"
            yield problem(document, ("catalog", name), name, "is not among the sources", hint)
        yield from _without_event_ids(document, name)
        publish = catalog.get("publish")
        target = publish.get("target") if isinstance(publish, dict) else None
        if isinstance(target, str) and target not in targets:
            hint = f"there are: {', '.join(targets) or 'none'}"
            yield problem(
                document, ("catalog", name, "publish", "target"), target, "is not among the targets", hint
            )


def _without_event_ids(document: Document, name: str) -> Iterator[Problem]:
    """A table is listed as of an event id, which Apiary's formats do not have."""
    source = dict(entries(document, "sources")).get(name, {})
    if str(source.get("format", "")).startswith("apiary"):
        reason = "is a source whose format has no event ids: its timelines cannot be kept"
        yield problem(document, ("catalog", name), name, reason, "let Tideline relay the source")
