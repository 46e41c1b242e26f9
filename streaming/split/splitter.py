"""Raw JSON rows into typed columns, inside the JVM: what the whole room is for.

Every row is parsed once, each key as its column's type. Where the reader could not do as it was told (a value of another kind,
a scalar where keys lie deeper, no JSON at all) it leaves the row's text in a field of its own; only such *doubtful* rows are
looked at again, as text, to tell what was lost. So the exact rule costs nothing on the rows that follow it, and there is
neither a cast nor an aggregate per column; counts and bounds come from the footers of the files (``footers``).

The rule (docs/SPLITTING.md has the exceptions): a column holds what ``get_json_object`` gives on the row. A value *fits* a
numeric column when it is a JSON number that the type holds, so that reading the column as text gives the same text; in a DOUBLE
column integers count as numbers up to 2^53. A value that does not fit is NULL, and the row's text goes to ``_rescued``. A
malformed row (anything but a JSON object) has no values at all, and its text is in ``_rescued`` too.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Final

from state.columns.slots import RESCUED, SlotState
from state.columns.types import DOUBLE_EXACT_MAX, ColumnType
from state.errors import ConfigError
from streaming.split.parse_schema import Parse, field_path, plan_parses, quote


if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from pyspark.sql import Column, DataFrame

    from state.columns.paths import KeyPath
    from state.columns.slots import Layout, Slot


MALFORMED: Final = "_malformed"
JSON_OPTIONS: Final = {"allowNonNumericNumbers": "false", "allowUnquotedControlChars": "true"}
"""With these the reader takes and refuses the documents that ``get_json_object`` takes and refuses (spark-4.0.md §6)."""
REQUIRED_CONF: Final = {"spark.sql.caseSensitive": "true", "spark.sql.variable.substitute": "false"}
"""Session settings without which a key could be taken for another, or for a variable's name."""
SHORT_LIVED_OPTIONS: Final = {"orc.dictionary.key.threshold": "0"}
"""Writer's options for files that are written anew when their hour is sealed: dictionaries of texts save 7 % of their bytes and cost about
a tenth of a batch's processor time at 300 keys."""
_READ: Final = "_tideline_read_{}"
_PARSED: Final = "_tideline_parsed_{}"
"""What was read, without what the reader had read of a malformed row before it knew."""
_TEXTS: Final = "_tideline_texts_{}"
_ROW: Final = "_tideline_row"
"""A number that Spark cannot compute twice, so that no filter of the result moves below and parses every row for itself."""
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

    ``text`` is the column with a row's JSON, a STRING; ``texts`` are further columns, by name, with the text of a key, whether
    or not it is one of the layout (the time of an event, say). Slots that hold no key any more are NULL columns. Of the keys in
    ``numeric_strings`` quoted numbers fit numeric columns too, if they are written as JSON would write them. Raises ConfigError
    for a session that was not made by ``streaming.driver.session``.
    """
    from pyspark.sql import functions

    _check_session(frame)
    plan = _Plan(layout, texts or {}, quote(text), frozenset(numeric_strings))
    kept = [quote(name) for name in dict.fromkeys([text, *keep])]
    read = [
        functions.from_json(quote(text), parse.typed_schema(), _options(parse)).alias(_READ.format(n))
        for n, parse in enumerate(plan.parses)
    ]
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
    """The aggregates worth observing while a split frame is written: ``rows``, ``malformed`` and ``rescued``.

    ``rescued`` counts malformed rows too. Counts per column are in the footers of the written files.
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
                "the Spark session cannot split: a setting is another",
                setting=setting,
                value=found,
                needed=value,
            )


def _options(parse: Parse) -> dict[str, str]:
    return JSON_OPTIONS | {"columnNameOfCorruptRecord": parse.doubt}


class _Plan:
    """The SQL of one split: which parse serves which key, and what is told about each.

    What is needed of few rows stands behind a CASE, not behind an AND: Spark takes what several columns share out of an AND, and
    then computes it for every row.
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
        """Whether parse ``n`` may have lost a value of a row."""
        root, types = _READ.format(n), self.parses[n].types
        by_type: dict[ColumnType, list[str]] = defaultdict(list)
        for key, column_type in types.items():
            by_type[column_type].append(field_path(root, key.members))
        doubts = [f"{field_path(root, [self.parses[n].doubt])} IS NOT NULL"]
        if bytes_ := by_type[ColumnType.TINYINT]:
            doubts += [f"{_of('greatest', bytes_)} > 127", f"{_of('least', bytes_)} < -128"]
        if doubles := by_type[ColumnType.DOUBLE]:
            doubts += [f"{_of('greatest', doubles)} >= {_EXACT}", f"{_of('least', doubles)} <= -{_EXACT}"]
        return f"coalesce({' OR '.join(doubts)}, FALSE)"

    def malformed(self) -> str:
        """Whether the row is anything but one JSON object."""
        root = _READ.format(0)
        doubt = field_path(root, [self.parses[0].doubt])
        start = f"trim(LEADING ' \\t\\r\\n' FROM {self._text})"
        return (
            f"CASE WHEN {root} IS NULL OR {_ROW} < 0 THEN TRUE WHEN {doubt} IS NULL THEN FALSE"
            f" WHEN get_json_object({self._text}, '$') IS NULL THEN TRUE ELSE NOT startswith({start}, '{{') END"
        )

    def columns(self) -> Iterator[str]:
        """The texts and the slots, as SQL with their names."""
        for name, key in self._texts.items():
            yield f"{self._as_text(key)} AS {quote(name)}"
        for slot in self._slots:
            yield f"{self._column(slot)} AS {quote(slot.name)}"

    def _column(self, slot: Slot) -> str:
        if slot.state is SlotState.RESERVED:
            return (
                f"CASE WHEN {MALFORMED} THEN {self._text} WHEN {self._lost_something()} THEN {self._text} END"
            )
        if slot.state is SlotState.EMPTY or slot.key is None:
            return f"CAST(NULL AS {slot.type.hive})"
        return self._fitting(slot.key)

    def _lost_something(self) -> str:
        conditions = [
            f"CASE WHEN {_TEXTS.format(n)} IS NULL THEN FALSE ELSE {self._lost_any(parse.types)} END"
            for n, parse in enumerate(self.parses)
            if parse.has_typed
        ]
        return _any([*conditions, *([self._lost_any(self._cast)] if self._cast else [])])

    def _lost_any(self, keys: Iterable[KeyPath]) -> str:
        typed = [key for key in keys if self._types[key] is not ColumnType.STRING]
        return _any(f"{self._seen_text(key)} IS NOT NULL AND {self._fitting(key)} IS NULL" for key in typed)

    def _as_text(self, key: KeyPath) -> str:
        if self._is_text(key):
            return self._value(key)
        return f"coalesce(CAST({self._fitting(key)} AS STRING), {self._seen_text(key)})"

    def _fitting(self, key: KeyPath) -> str:
        value, column_type = self._value(key), self._types[key]
        if key in self._cast:
            return _cast(value, column_type)
        if column_type is ColumnType.TINYINT:
            return f"try_cast({value} AS TINYINT)"
        if column_type is ColumnType.DOUBLE:
            text = self._seen_text(key)
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

    def _seen_text(self, key: KeyPath) -> str:
        """The text of the value, where the row is doubtful; NULL elsewhere."""
        if self._is_text(key):
            return self._value(key)
        return field_path(_TEXTS.format(self._serving[key]), key.members)


def _of(function: str, values: Sequence[str]) -> str:
    """The greatest or least of the values that are not NULL; Spark has none of a single one."""
    return f"{function}({', '.join(values)})" if len(values) > 1 else values[0]


def _cast(text: str, column_type: ColumnType) -> str:
    """The number that a text is, where writing the number gives the text again; integers count as numbers in a DOUBLE."""
    typed = f"try_cast({text} AS {column_type.hive})"
    same = f"CAST({typed} AS STRING) = {text}"
    if column_type is ColumnType.DOUBLE:
        integer = f"try_cast({text} AS BIGINT)"
        bounds = f"{integer} BETWEEN -{DOUBLE_EXACT_MAX} AND {DOUBLE_EXACT_MAX}"
        same = f"({same} AND abs({typed}) < double('Infinity')) OR (CAST({integer} AS STRING) = {text} AND {bounds})"
    return f"CASE WHEN {same} THEN {typed} END"


def _any(conditions: Iterable[str]) -> str:
    """Whether one of them holds. Unlike a chain of ORs, COALESCE is compiled in pieces, so it bears hundreds."""
    pieces = [f"CASE WHEN {condition} THEN TRUE END" for condition in conditions]
    return f"coalesce({', '.join([*pieces, 'FALSE'])})"
