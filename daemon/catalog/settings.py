"""Settings of the catalog (section ``catalog``): tables with timelines, the index, and publishing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Final, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from daemon.config.crosscheck import entries, problem
from daemon.config.document import Document, Problem
from daemon.config.fields import Name, QualifiedPatterns, as_list
from daemon.config.section import ConfigSection, Section, matching, refused, setting
from handlers.catalog.timelines.rules import Rule, Rules
from state.errors import BadInput, ConfigError
from state.timelines.periods import UpdatePeriod
from state.timelines.storage_forms import ENDS_AND_HOLES, find_form
from state.timelines.tables.settings import SENTINELS


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


_COLUMN: Final = matching(
    r"[A-Za-z0-9_]{1,128}",
    "must be a column name: letters, digits and '_', at most 128 characters",
)
Columns = Annotated[list[Annotated[str, _COLUMN]], BeforeValidator(as_list)]
Periods = Annotated[list[Annotated[str, AfterValidator(_check_period)]], BeforeValidator(as_list)]
FormName = Annotated[str, AfterValidator(_check_form)]
HBaseTable = Annotated[
    str,
    matching(
        r"([A-Za-z0-9_]{1,100}:)?[A-Za-z0-9_][A-Za-z0-9_.-]{0,199}",
        "must be an HBase table: letters, digits, '_', '-' and '.', optionally after a namespace and ':'",
    ),
]


class TimelineRule(Section):
    """How to follow matching tables; the first rule that matches a table applies."""

    tables: QualifiedPatterns = Field(
        min_length=1,
        max_length=1000,
        description="Patterns of tables, db.table with '*', '?' or '[...]'.",
    )
    columns: Columns = Field(
        default=[],
        max_length=100,
        description="Partition columns that contain times. Default: the columns in the table's property "
        "cube.storagetable.time.partcols, or otherwise every column whose values are all times.",
    )
    periods: Periods = Field(
        default=[],
        max_length=10,
        description="Update periods that values may have, tried in this order. Default: the partition's own "
        "parameter, or otherwise the format of its value, which does not distinguish quarters from months.",
    )
    iso_weeks: bool = setting(Rule, "iso_weeks")
    form: FormName = Field(
        default=ENDS_AND_HOLES.name,
        description="Storage form of timelines in table properties: ends-and-holes, ranges or store-all.",
    )
    jump_max: int | None = Field(
        default=None,
        ge=1,
        le=1_000_000_000,
        description="Distance (in partitions) from all others at which Tideline refuses a value; default: 20 "
        "years.",
    )
    sentinels: list[Annotated[str, Field(min_length=1, max_length=64)]] = Field(
        default=list(SENTINELS),
        max_length=100,
        description="Values that stand for 'no date'. They, and hours or minutes within them, are not times.",
    )


class PublishConfig(Section):
    """Writing timelines to table properties, where Lens reads them."""

    enabled: bool = Field(default=False, description="Whether Tideline writes timelines.")
    target: Name | None = Field(
        default=None,
        description="Target whose tables receive the timelines, with the names of the databases there; "
        "default: the source's own tables.",
    )
    delay_s: float = Field(
        default=10,
        ge=0,
        le=86_400,
        description="How long Tideline collects changes of a table before it writes them.",
    )


class HBaseConfig(Section):
    """An HBase table, through a Thrift gateway (version 1, buffered transport)."""

    host: str = Field(min_length=1, max_length=253, description="Host of the gateway.")
    port: int = Field(default=9090, ge=1, le=65_535, description="Port of the gateway.")
    table: HBaseTable = Field(
        default="tideline",
        description="Table of the index, [namespace:]name; created if it does not exist. Each source needs "
        "its own table.",
    )
    timeout_s: float = Field(default=30, gt=0, le=600, description="Timeout of one message.")


class PartitionsConfig(Section):
    """Which tables are in the partition index; without the section none is."""

    tables: QualifiedPatterns = Field(
        default=["*.*"],
        min_length=1,
        max_length=1000,
        description="Patterns of tables, db.table with '*', '?' or '[...]'; Tideline ignores tables without "
        "partition columns.",
    )
    exclude: QualifiedPatterns = Field(
        default=[], max_length=1000, description="Patterns of tables to exclude from the index."
    )
    store: Literal["sqlite", "hbase"] = Field(
        default="sqlite", description="Where the index is stored: in the catalog's own file, or in HBase."
    )
    hbase: HBaseConfig | None = Field(default=None, description="Required if the store is HBase.")
    read_expressions: bool = Field(
        default=False,
        description="Whether the index evaluates the expressions of get_partitions_by_expr. Otherwise such "
        "queries return all partitions, marked as possibly not matching.",
    )

    @model_validator(mode="after")
    def _check_store(self) -> Self:
        if (self.store == "hbase") != (self.hbase is not None):
            raise refused("must have the section 'hbase' if, and only if, store is 'hbase'")
        return self


class CatalogConfig(Section):
    """Which tables of the source of this name have timelines, and which are in the partition index."""

    lens: bool = setting(Rules, "lens")
    rules: dict[Name, TimelineRule] = Field(default={}, max_length=1000, description="Further tables.")
    exclude: QualifiedPatterns = Field(
        default=[], max_length=1000, description="Patterns of tables to ignore."
    )
    publish: PublishConfig = Field(
        default=PublishConfig(), description="Writing timelines to table properties."
    )
    partitions: PartitionsConfig | None = Field(
        default=None, description="The partition index; default: none."
    )


CATALOG: Final[ConfigSection[dict[str, CatalogConfig]]] = ConfigSection(
    "catalog",
    dict[Name, CatalogConfig],
    Field(default={}, max_length=64, description="Timelines and partition indexes, by source."),
)


def cross_problems(document: Document) -> Iterator[Problem]:
    """Yield every contradiction between settings."""
    yield from _unknown_catalogs(document)


def _unknown_catalogs(document: Document) -> Iterator[Problem]:
    """Yield catalogs whose name is not a source, or whose target does not exist."""
    sources, targets = (
        [name for name, _ in entries(document, section)] for section in ("sources", "targets")
    )
    for name, catalog in entries(document, "catalog"):
        if name not in sources:
            hint = f"known sources: {', '.join(sources) or 'none'}"
            yield problem(document, ("catalog", name), name, "must be a source", hint)
        yield from _without_event_ids(document, name)
        publish = catalog.get("publish")
        target = publish.get("target") if isinstance(publish, dict) else None
        if isinstance(target, str) and target not in targets:
            hint = f"known targets: {', '.join(targets) or 'none'}"
            yield problem(document, ("catalog", name, "publish", "target"), target, "must be a target", hint)


def _without_event_ids(document: Document, name: str) -> Iterator[Problem]:
    """Yield catalogs of sources whose format has no event ids, as Apiary's: a listing needs one."""
    source = dict(entries(document, "sources")).get(name, {})
    if str(source.get("format", "")).startswith("apiary"):
        reason = "must not be a source with an Apiary format, which has no event ids"
        yield problem(document, ("catalog", name), name, reason, "let Tideline relay the source")
