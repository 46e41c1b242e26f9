"""Splits raw JSON rows into typed columns inside the JVM.

Spark parses every row once, each key as the type of its column: plain rows by their own parser
(``streaming.split.plain_rows``), which returns all slots at once, others by Spark's reader. If a value does
not fit its column, a scalar stands in place of an object with requested keys, or the row is not JSON, the
reader stores the row's text in an extra field. Only such *doubtful* rows get a second parse, as text, which
finds the lost values. So the exact rule costs nothing for other rows. The query has neither a cast nor an
aggregate for each column; counts and bounds come from the footers of the files (``streaming.batch.footers``).

The rule (docs/SPLITTING.md lists the exceptions): a column holds the result of ``get_json_object`` for the
row. A value *fits* a numeric column if it is a JSON number in the range of the type, so that reading the
column as text gives the same text. In a DOUBLE column, integers up to 2^53 count as numbers. A value that
does not fit becomes NULL, and the row's text goes to ``_rescued``. A malformed row (anything but a JSON
object) has no values, and its text is in ``_rescued`` too. So is the text of a row with text after its first
document, which Spark's reader ignores like ``get_json_object``. The splitter looks for such text only in rows
that are not plain.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from state.columns.slots import RESCUED
from state.errors import ConfigError
from streaming.split.parse_schema import quote
from streaming.split.plain_rows import is_available, parse_plain_rows, split_documents
from streaming.split.split_plan import MALFORMED, PARSED, ROW, SLOTS, STEP, TRAILING, SplitPlan, build_struct


if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from pyspark.sql import Column, DataFrame

    from state.columns.paths import KeyPath
    from state.columns.slots import Layout


REQUIRED_CONF: Final = {"spark.sql.caseSensitive": "true", "spark.sql.variable.substitute": "false"}
"""Session settings without which a key could be confused with another key or with a variable."""
SHORT_LIVED_OPTIONS: Final = {"orc.dictionary.key.threshold": "0"}
"""Writer options for the files of sealed hours. Without dictionaries of texts they are 7 % larger, and a
batch of 300 keys needs about a tenth less processor time.
"""


def split(
    frame: DataFrame,
    layout: Layout,
    *,
    keep: Sequence[str] = (),
    texts: Mapping[str, KeyPath] | None = None,
    numeric_strings: Collection[KeyPath] = (),
) -> DataFrame:
    """Return ``keep``, ``_malformed`` and ``_trailing`` (BOOLEAN, never NULL), ``texts`` and then all slots
    in the layout's order.

    The STRING column ``value`` contains the JSON of a row. ``texts`` gives the names of further columns, each
    with the text of a key that need not be in the layout, for example the event time. Slots without a key are
    NULL columns. For keys in ``numeric_strings``, quoted numbers also fit numeric columns if written as JSON
    writes them. Raises ConfigError if the session was not created by ``streaming.driver.session``.
    """
    rows = split_packed(frame, layout, keep=keep, texts=texts, numeric_strings=numeric_strings)
    return rows.selectExpr(*map(quote, [*keep, MALFORMED, TRAILING, *(texts or {})]), *unpack(layout))


def split_packed(
    frame: DataFrame,
    layout: Layout,
    *,
    keep: Sequence[str] = (),
    texts: Mapping[str, KeyPath] | None = None,
    numeric_strings: Collection[KeyPath] = (),
) -> DataFrame:
    """Return the same as ``split``, with all slots as one STRUCT in the column ``SLOTS``
    (``streaming.split.file_columns`` writes it).
    """
    _check_session(frame)
    text = quote("value")
    documents = split_documents(text) if is_available(frame.sparkSession) else None
    plan = SplitPlan(layout, texts or {}, text, frozenset(numeric_strings), documents)
    columns = [quote(name) for name in dict.fromkeys(["value", *keep])]
    plain = parse_plain_rows(frame.sparkSession, text, layout.slots, plan.plain_texts, plan.quoted)
    parsed = plan.any_row() if plain is None else f"coalesce({plain}, {plan.any_row()})"
    rows = frame.selectExpr(*columns, f"monotonically_increasing_id() AS {ROW}", f"{parsed} AS {PARSED}")
    return rows.selectExpr(*map(quote, keep), *plan.columns())


def unpack(layout: Layout) -> list[str]:
    """Return the SQL of every slot in the column ``SLOTS``, with its name."""
    return [f"{SLOTS}.{quote(slot.name)} AS {quote(slot.name)}" for slot in layout.slots]


def pack(layout: Layout) -> str:
    """Return the SQL of the column ``SLOTS`` made of all slots, with its name."""
    return f"{build_struct({slot.name: quote(slot.name) for slot in layout.slots})} AS {SLOTS}"


def replace_rescued(layout: Layout, text: str) -> str:
    """Return the SQL of the column ``SLOTS`` with ``text`` as its ``_rescued``. Spark generates no code for
    it, because few rows need it.
    """
    slots = {slot.name: f"{STEP}.{quote(slot.name)}" for slot in layout.slots}
    return f"element_at(transform(array({SLOTS}), {STEP} -> {build_struct(slots | {RESCUED: text})}), 1)"


def row_counts() -> list[Column]:
    """Return the aggregates to observe while split rows are written: ``rows``, ``malformed``, ``trailing``
    and ``rescued``.

    ``rescued`` includes malformed rows, and rows with text after their document. Counts per column are in the
    footers of the written files.
    """
    from pyspark.sql import functions

    return [
        functions.count(functions.lit(1)).alias("rows"),
        functions.expr(f"count_if({MALFORMED})").alias("malformed"),
        functions.expr(f"count_if({TRAILING})").alias("trailing"),
        functions.expr(f"count({SLOTS}.{RESCUED})").alias("rescued"),
    ]


def _check_session(frame: DataFrame) -> None:
    for setting, value in REQUIRED_CONF.items():
        configured = frame.sparkSession.conf.get(setting)
        if configured != value:
            raise ConfigError(
                "the Spark session cannot split rows: a required setting differs",
                setting=setting,
                value=configured,
                needed=value,
            )
