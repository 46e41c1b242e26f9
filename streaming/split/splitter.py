"""Splits raw JSON rows into typed columns inside the JVM.

Every row is parsed once, each key as the type of its column: plain rows by a parser of their own (``streaming.split.plain_rows``), others by
Spark's reader. If that cannot do it (a value of another kind, a scalar where keys
lie deeper, not JSON at all), it leaves the row's text in an extra field. Only such *doubtful* rows are parsed again, as text, to find out
what was lost. So the exact rule costs nothing on rows that conform. There is neither a cast nor an aggregate per column; counts and
bounds come from the footers of the files (``streaming.batch.footers``).

The rule (docs/SPLITTING.md lists the exceptions): a column holds what ``get_json_object`` returns for the row. A value *fits* a numeric
column if it is a JSON number in the range of the type, so that reading the column as text gives the same text. In a DOUBLE column,
integers up to 2^53 count as numbers. A value that does not fit becomes NULL, and the row's text goes to ``_rescued``. A malformed row
(anything but a JSON object) has no values, and its text is in ``_rescued`` too.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Final

from state.columns.slots import RESCUED, SlotState
from state.columns.types import DOUBLE_EXACT_MAX, ColumnType
from state.errors import ConfigError
from streaming.split.parse_schema import Parse, field_path, plan_parses, quote
from streaming.split.plain_rows import parse_plain_rows


if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from pyspark.sql import Column, DataFrame

    from state.columns.paths import KeyPath
    from state.columns.slots import Layout, Slot


MALFORMED: Final = "_malformed"
JSON_OPTIONS: Final = {"allowNonNumericNumbers": "false", "allowUnquotedControlChars": "true"}
"""With these options the reader accepts and rejects the same documents as ``get_json_object`` (spark-4.0.md §6)."""
REQUIRED_CONF: Final = {"spark.sql.caseSensitive": "true", "spark.sql.variable.substitute": "false"}
"""Session settings without which a key could be confused with another key or with a variable."""
SHORT_LIVED_OPTIONS: Final = {"orc.dictionary.key.threshold": "0"}
"""Writer options for files that are rewritten when their hour is sealed. Without dictionaries of texts they are 7 % larger, and a batch
of 300 keys needs about a tenth less processor time."""
_READ: Final = "_tideline_read_{}"
_PARSED: Final = "_tideline_parsed_{}"
"""The result of the parse, without values that the reader took from a row before it found the row malformed."""
_TEXTS: Final = "_tideline_texts_{}"
_ROW: Final = "_tideline_row"
"""A number that Spark cannot compute twice. It keeps filters on the result from moving below and parsing every row again."""
_EXACT: Final = f"{DOUBLE_EXACT_MAX}D"


def split(
    frame: DataFrame,
    layout: Layout,
    *,
    text: str = "value",
    keep: Sequence[str] = (),
    texts: Mapping[str, KeyPath] | None = None,
    numeric_strings: Collection[KeyPath] = (),
) -> DataFrame:
    """Return ``keep``, ``_malformed`` (BOOLEAN, never NULL), ``texts`` and then all slots in the layout's order.

    ``text`` is the STRING column with a row's JSON. ``texts`` are further columns, by name, with the text of a key that need not
    be in the layout, for example the event time. Slots without a key are NULL columns. For keys in ``numeric_strings``, quoted
    numbers also fit numeric columns if they are written as JSON writes them. Raises ConfigError if the session was not created by
    ``streaming.driver.session``.
    """
    from pyspark.sql import functions

    _check_session(frame)
    plan = _Plan(layout, texts or {}, quote(text), frozenset(numeric_strings))
    kept = [quote(name) for name in dict.fromkeys([text, *keep])]
    read = [_parse(frame, quote(text), parse).alias(_READ.format(n)) for n, parse in enumerate(plan.parses)]
    malformed, well_formed = functions.expr(plan.malformed()), functions.expr(f"NOT ({plan.malformed()})")
    parsed = [
        functions.when(well_formed, functions.col(_READ.format(n))).alias(_PARSED.format(n))
        for n in range(len(plan.parses))
    ]
    again = [
        functions.when(
            functions.expr(plan.is_doubtful(n)) & well_formed,
            functions.from_json(quote(text), parse.text_schema(), _options(parse)),
        ).alias(_TEXTS.format(n))
        for n, parse in enumerate(plan.parses)
        if parse.has_typed
    ]
    row = functions.monotonically_increasing_id().alias(_ROW)
    rows = frame.select(*kept, row, *read).select(*kept, malformed.alias(MALFORMED), *parsed, *again)
    return rows.selectExpr(*map(quote, keep), MALFORMED, *plan.columns())


def row_counts() -> list[Column]:
    """Return the aggregates to observe while split rows are written: ``rows``, ``malformed`` and ``rescued``.

    ``rescued`` includes malformed rows. Counts per column are in the footers of the written files.
    """
    from pyspark.sql import functions

    return [
        functions.count(functions.lit(1)).alias("rows"),
        functions.expr(f"count_if({MALFORMED})").alias("malformed"),
        functions.expr(f"count({RESCUED})").alias("rescued"),
    ]


def _check_session(frame: DataFrame) -> None:
    for setting, value in REQUIRED_CONF.items():
        found = frame.sparkSession.conf.get(setting)
        if found != value:
            raise ConfigError(
                "the Spark session cannot split rows: a required setting differs",
                setting=setting,
                value=found,
                needed=value,
            )


def _parse(frame: DataFrame, text: str, parse: Parse) -> Column:
    """Return the STRUCT of a parse. Rows that are not plain are left to Spark's reader, which is evaluated only for them."""
    from pyspark.sql import functions

    read = functions.from_json(text, parse.typed_schema(), _options(parse))
    plain = parse_plain_rows(frame.sparkSession, text, parse)
    return read if plain is None else functions.coalesce(plain, read)


def _options(parse: Parse) -> dict[str, str]:
    return JSON_OPTIONS | {"columnNameOfCorruptRecord": parse.doubt}


class _Plan:
    """The SQL of one split: which parse provides which key, and the expression of each column.

    Expressions that only few rows need are guarded by CASE, not by AND. Spark extracts common subexpressions from an AND and then
    computes them for every row.
    """

    def __init__(
        self, layout: Layout, texts: Mapping[str, KeyPath], text: str, lenient: frozenset[KeyPath]
    ) -> None:
        self._slots = layout.slots
        self._texts = texts
        self._text = text
        live = {key: slot.type for key, slot in layout.by_key.items()}
        self._types = dict.fromkeys(texts.values(), ColumnType.STRING) | live
        self._cast = {key for key in lenient & live.keys() if live[key].is_numeric}
        self.parses = plan_parses(self._types | dict.fromkeys(self._cast, ColumnType.STRING))
        self._serving = {key: n for n, parse in enumerate(self.parses) for key in parse.types}

    def is_doubtful(self, n: int) -> str:
        """Return the condition that parse ``n`` may have lost a value of a row."""
        root, types = _READ.format(n), self.parses[n].types
        by_type: dict[ColumnType, list[str]] = defaultdict(list)
        for key, column_type in types.items():
            by_type[column_type].append(field_path(root, key.members))
        doubts = [f"{field_path(root, [self.parses[n].doubt])} IS NOT NULL"]
        if bytes_ := by_type[ColumnType.TINYINT]:
            doubts += [f"{_apply('greatest', bytes_)} > 127", f"{_apply('least', bytes_)} < -128"]
        if doubles := by_type[ColumnType.DOUBLE]:
            doubts += [
                f"{_apply('greatest', doubles)} >= {_EXACT}",
                f"{_apply('least', doubles)} <= -{_EXACT}",
            ]
        return f"coalesce({' OR '.join(doubts)}, FALSE)"

    def malformed(self) -> str:
        """Return the condition that the row is not a JSON object."""
        root = _READ.format(0)
        doubt = field_path(root, [self.parses[0].doubt])
        start = f"trim(LEADING ' \\t\\r\\n' FROM {self._text})"
        return (
            f"CASE WHEN {root} IS NULL OR {_ROW} < 0 THEN TRUE WHEN {doubt} IS NULL THEN FALSE"
            f" WHEN get_json_object({self._text}, '$') IS NULL THEN TRUE ELSE NOT startswith({start}, '{{') END"
        )

    def columns(self) -> Iterator[str]:
        """Return the texts and the slots, as SQL with their names."""
        for name, key in self._texts.items():
            yield f"{self._as_text(key)} AS {quote(name)}"
        for slot in self._slots:
            yield f"{self._column(slot)} AS {quote(slot.name)}"

    def _column(self, slot: Slot) -> str:
        if slot.state is SlotState.RESERVED:
            return (
                f"CASE WHEN {MALFORMED} THEN {self._text} WHEN {self._lost_any_value()} THEN {self._text} END"
            )
        if slot.state is SlotState.EMPTY or slot.key is None:
            return f"CAST(NULL AS {slot.type.hive})"
        return self._fitted_value(slot.key)

    def _lost_any_value(self) -> str:
        conditions = [
            f"CASE WHEN {_TEXTS.format(n)} IS NULL THEN FALSE ELSE {self._lost_any_of(parse.types)} END"
            for n, parse in enumerate(self.parses)
            if parse.has_typed
        ]
        return _any([*conditions, *([self._lost_any_of(self._cast)] if self._cast else [])])

    def _lost_any_of(self, keys: Iterable[KeyPath]) -> str:
        typed = [key for key in keys if self._types[key] is not ColumnType.STRING]
        return _any(
            f"{self._original_text(key)} IS NOT NULL AND {self._fitted_value(key)} IS NULL" for key in typed
        )

    def _as_text(self, key: KeyPath) -> str:
        if self._is_text(key):
            return self._value(key)
        return f"coalesce(CAST({self._fitted_value(key)} AS STRING), {self._original_text(key)})"

    def _fitted_value(self, key: KeyPath) -> str:
        value, column_type = self._value(key), self._types[key]
        if key in self._cast:
            return _cast(value, column_type)
        if column_type is ColumnType.TINYINT:
            return f"try_cast({value} AS TINYINT)"
        if column_type is ColumnType.DOUBLE:
            text = self._original_text(key)
            edge = f"abs({value}) = {_EXACT} AND ltrim('-', {text}) = '{DOUBLE_EXACT_MAX}'"
            return (
                f"CASE WHEN abs({value}) < {_EXACT} THEN {value}"
                f" WHEN {text} = CAST({value} AS STRING) OR ({edge}) THEN {value} END"
            )
        return value

    def _is_text(self, key: KeyPath) -> bool:
        return key in self._cast or self._types[key] is ColumnType.STRING

    def _value(self, key: KeyPath) -> str:
        return field_path(_PARSED.format(self._serving[key]), key.members)

    def _original_text(self, key: KeyPath) -> str:
        """Return the text of the value for doubtful rows, NULL for others."""
        if self._is_text(key):
            return self._value(key)
        return field_path(_TEXTS.format(self._serving[key]), key.members)


def _apply(function: str, values: Sequence[str]) -> str:
    """Return the greatest or least value that is not NULL; Spark's functions need at least two arguments."""
    return f"{function}({', '.join(values)})" if len(values) > 1 else values[0]


def read_number(text: str, column_type: ColumnType) -> str:
    """Return, as SQL, the number in a text if the text is what JSON and a column of this type write for it; otherwise NULL."""
    return _cast(text, column_type)


def _cast(text: str, column_type: ColumnType) -> str:
    """Return the number in a text if writing the number gives the same text; a DOUBLE also accepts integers."""
    typed = f"try_cast({text} AS {column_type.hive})"
    same = f"CAST({typed} AS STRING) = {text}"
    if column_type is ColumnType.DOUBLE:
        integer = f"try_cast({text} AS BIGINT)"
        bounds = f"{integer} BETWEEN -{DOUBLE_EXACT_MAX} AND {DOUBLE_EXACT_MAX}"
        same = f"({same} AND abs({typed}) < double('Infinity')) OR (CAST({integer} AS STRING) = {text} AND {bounds})"
    return f"CASE WHEN {same} THEN {typed} END"


def _any(conditions: Iterable[str]) -> str:
    """Return whether a condition holds. Unlike a chain of ORs, COALESCE is compiled in pieces and supports hundreds of them."""
    pieces = [f"CASE WHEN {condition} THEN TRUE END" for condition in conditions]
    return f"coalesce({', '.join([*pieces, 'FALSE'])})"
