"""Splits raw JSON rows into typed columns inside the JVM.

Every row is parsed once, each key as the type of its column: plain rows by a parser of their own (``streaming.split.plain_rows``), which
returns all slots at once, others by Spark's reader. If that cannot do it (a value of another kind, a scalar where keys
lie deeper, not JSON at all), it leaves the row's text in an extra field. Only such *doubtful* rows are parsed again, as text, to find out
what was lost. So the exact rule costs nothing on rows that conform. There is neither a cast nor an aggregate per column; counts and
bounds come from the footers of the files (``streaming.batch.footers``).

The rule (docs/SPLITTING.md lists the exceptions): a column holds what ``get_json_object`` returns for the row. A value *fits* a numeric
column if it is a JSON number in the range of the type, so that reading the column as text gives the same text. In a DOUBLE column,
integers up to 2^53 count as numbers. A value that does not fit becomes NULL, and the row's text goes to ``_rescued``. A malformed row
(anything but a JSON object) has no values, and its text is in ``_rescued`` too. So is the text of a row with anything behind its first
document, which Spark's reader ignores as ``get_json_object`` does. Only rows that are not plain are searched for it.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Final

from state.columns.slots import RESCUED, SlotState
from state.columns.types import DOUBLE_EXACT_MAX, ColumnType
from state.errors import ConfigError
from streaming.split.parse_schema import Parse, field_path, literal, plan_parses, quote, read_number
from streaming.split.plain_rows import is_available, parse_plain_rows, split_documents


if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from pyspark.sql import Column, DataFrame

    from state.columns.paths import KeyPath
    from state.columns.slots import Layout, Slot


MALFORMED: Final = "_malformed"
TRAILING: Final = "_trailing"
"""Whether the row has more text behind its first document, of which no value is in a column."""
JSON_OPTIONS: Final = {"allowNonNumericNumbers": "false", "allowUnquotedControlChars": "true"}
"""With these options the reader accepts and rejects the same documents as ``get_json_object`` (spark-4.0.md §6)."""
REQUIRED_CONF: Final = {"spark.sql.caseSensitive": "true", "spark.sql.variable.substitute": "false"}
"""Session settings without which a key could be confused with another key or with a variable."""
SHORT_LIVED_OPTIONS: Final = {"orc.dictionary.key.threshold": "0"}
"""Writer options for files that are rewritten when their hour is sealed. Without dictionaries of texts they are 7 % larger, and a batch
of 300 keys needs about a tenth less processor time."""
SLOTS: Final = "_tideline_slots"
"""The column of ``split_packed`` with all slots as one STRUCT."""
_PARSED: Final = "_tideline_parsed"
"""The STRUCT of a row: whether it is malformed, the slots, and the texts."""
_STEP: Final = "_tideline_step"
"""The result of the step before (``_Plan``)."""
_ROW: Final = "_tideline_row"
"""A number that Spark cannot compute twice. It keeps filters on the result from moving below and parsing every row again."""
_END: Final = "tideline: end of the row"
"""An element that is put behind a row to find out whether only one document stands before it."""
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
    """Return ``keep``, ``_malformed`` and ``_trailing`` (BOOLEAN, never NULL), ``texts`` and then all slots in the layout's order.

    ``text`` is the STRING column with a row's JSON. ``texts`` are further columns, by name, with the text of a key that need not
    be in the layout, for example the event time. Slots without a key are NULL columns. For keys in ``numeric_strings``, quoted
    numbers also fit numeric columns if they are written as JSON writes them. Raises ConfigError if the session was not created by
    ``streaming.driver.session``.
    """
    rows = split_packed(frame, layout, text=text, keep=keep, texts=texts, numeric_strings=numeric_strings)
    return rows.selectExpr(*map(quote, [*keep, MALFORMED, TRAILING, *(texts or {})]), *unpack(layout))


def split_packed(
    frame: DataFrame,
    layout: Layout,
    *,
    text: str = "value",
    keep: Sequence[str] = (),
    texts: Mapping[str, KeyPath] | None = None,
    numeric_strings: Collection[KeyPath] = (),
) -> DataFrame:
    """Return the same as ``split``, with all slots as one STRUCT in the column ``SLOTS`` (``streaming.split.file_columns`` writes it)."""
    _check_session(frame)
    documents = split_documents(quote(text)) if is_available(frame.sparkSession) else None
    plan = _Plan(layout, texts or {}, quote(text), frozenset(numeric_strings), documents)
    kept = [quote(name) for name in dict.fromkeys([text, *keep])]
    plain = parse_plain_rows(frame.sparkSession, quote(text), layout.slots, plan.plain_texts, plan.quoted)
    parsed = plan.any_row() if plain is None else f"coalesce({plain}, {plan.any_row()})"
    rows = frame.selectExpr(*kept, f"monotonically_increasing_id() AS {_ROW}", f"{parsed} AS {_PARSED}")
    return rows.selectExpr(*map(quote, keep), *plan.columns())


def unpack(layout: Layout) -> list[str]:
    """Return every slot of the column ``SLOTS`` as SQL with its name."""
    return [f"{SLOTS}.{quote(slot.name)} AS {quote(slot.name)}" for slot in layout.slots]


def pack(layout: Layout) -> str:
    """Return all slots as the column ``SLOTS``, as SQL with its name."""
    return f"{_struct({slot.name: quote(slot.name) for slot in layout.slots})} AS {SLOTS}"


def replace_rescued(layout: Layout, text: str) -> str:
    """Return the column ``SLOTS`` with ``text`` as ``_rescued``, as SQL. Spark generates no code for it, because few rows need it."""
    slots = {slot.name: f"{_STEP}.{quote(slot.name)}" for slot in layout.slots}
    return f"element_at(transform(array({SLOTS}), {_STEP} -> {_struct(slots | {RESCUED: text})}), 1)"


def row_counts() -> list[Column]:
    """Return the aggregates to observe while split rows are written: ``rows``, ``malformed``, ``trailing`` and ``rescued``.

    ``rescued`` includes malformed rows and those with more text behind their document. Counts per column are in the footers of the written files.
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
        found = frame.sparkSession.conf.get(setting)
        if found != value:
            raise ConfigError(
                "the Spark session cannot split rows: a required setting differs",
                setting=setting,
                value=found,
                needed=value,
            )


class _Plan:
    """The SQL of one split: which parse provides which key, and the expression of each column.

    Rows that are not plain are evaluated in steps, because each step uses the result of the one before several times. As steps of the query,
    they would copy all rows, plain ones included, and Spark would generate code for hundreds of columns in every task. So each step is a
    function that is applied to an array with one element, which Spark evaluates without generating code.

    Expressions that only few rows need are guarded by CASE, not by AND, which does not guard them wherever Spark extracts common
    subexpressions.
    """

    def __init__(
        self,
        layout: Layout,
        texts: Mapping[str, KeyPath],
        text: str,
        lenient: frozenset[KeyPath],
        documents: str | None,
    ) -> None:
        self._slots = layout.slots
        self._texts = texts
        self._text = text
        self._documents = documents
        self._live = layout.by_key
        live = {key: slot.type for key, slot in self._live.items()}
        self._types = dict.fromkeys(texts.values(), ColumnType.STRING) | live
        self.quoted = frozenset(key for key in lenient & live.keys() if live[key].is_numeric)
        """The keys for which quoted numbers fit."""
        self._parses = plan_parses(self._types | dict.fromkeys(self.quoted, ColumnType.STRING))
        self._serving = {key: n for n, parse in enumerate(self._parses) for key in parse.types}

    @property
    def plain_texts(self) -> dict[str, KeyPath | None]:
        """The texts that the parser of plain rows returns, with their keys. The others have no key here and are read from their slots."""
        texts = {name: None if self._has_slot(key) else key for name, key in self._texts.items()}
        return {TRAILING: None, **texts}

    def any_row(self) -> str:
        """Return the STRUCT of any row, also of one that is not plain: whether it is malformed, the slots, and the texts."""
        reads = {
            f"p{n}": self._from_json(parse, parse.typed_schema()) for n, parse in enumerate(self._parses)
        }
        checked = {"malformed": self._malformed(), "read": _STEP}
        parsed = {
            "malformed": f"{_STEP}.malformed",
            "trailing": f"CASE WHEN {_STEP}.malformed THEN NULL WHEN {self._has_one_document()} THEN NULL ELSE '' END",
        }
        for n, parse in enumerate(self._parses):
            parsed[f"p{n}"] = f"CASE WHEN {_STEP}.malformed THEN NULL ELSE {_STEP}.read.p{n} END"
            if parse.has_typed:
                parsed[f"t{n}"] = (
                    f"CASE WHEN {_STEP}.malformed THEN NULL WHEN {self._is_doubtful(n)}"
                    f" THEN {self._from_json(parse, parse.text_schema())} END"
                )
        slots = _struct({slot.name: self._column(slot) for slot in self._slots})
        texts = {TRAILING: f"{_STEP}.trailing"}
        texts |= {name: self._as_text(key) for name, key in self._texts.items()}
        rows = f"array({_struct(reads)})"
        for step in (checked, parsed, {"malformed": f"{_STEP}.malformed", "slots": slots, **texts}):
            rows = f"transform({rows}, {_STEP} -> {_struct(step)})"
        return f"element_at({rows}, 1)"

    def columns(self) -> Iterator[str]:
        """Return the columns of the result from the STRUCT of a row, as SQL with their names."""
        yield f"CASE WHEN {_ROW} < 0 THEN TRUE ELSE {_PARSED}.malformed END AS {MALFORMED}"
        yield f"{_PARSED}.{TRAILING} IS NOT NULL AS {TRAILING}"
        for name, key in self._texts.items():
            text = f"{_PARSED}.{quote(name)}"
            if self._has_slot(key):
                text = f"coalesce({text}, CAST({_PARSED}.slots.{quote(self._live[key].name)} AS STRING))"
            yield f"{text} AS {quote(name)}"
        yield f"{_PARSED}.slots AS {SLOTS}"

    def _has_slot(self, key: KeyPath) -> bool:
        """Whether the text of a key can be read from its slot."""
        return key in self._live and key not in self.quoted

    def _from_json(self, parse: Parse, schema: str) -> str:
        options = JSON_OPTIONS | {"columnNameOfCorruptRecord": parse.doubt}
        pairs = ", ".join(f"{literal(name)}, {literal(value)}" for name, value in options.items())
        return f"from_json({self._text}, {literal(schema)}, map({pairs}))"

    def _is_doubtful(self, n: int) -> str:
        """Return the condition that parse ``n`` may have lost a value of a row."""
        root, types = f"{_STEP}.read.p{n}", self._parses[n].types
        by_type: dict[ColumnType, list[str]] = defaultdict(list)
        for key, column_type in types.items():
            by_type[column_type].append(field_path(root, key.members))
        doubts = [f"{field_path(root, [self._parses[n].doubt])} IS NOT NULL"]
        if bytes_ := by_type[ColumnType.TINYINT]:
            doubts += [f"{_apply('greatest', bytes_)} > 127", f"{_apply('least', bytes_)} < -128"]
        if doubles := by_type[ColumnType.DOUBLE]:
            doubts += [
                f"{_apply('greatest', doubles)} >= {_EXACT}",
                f"{_apply('least', doubles)} <= -{_EXACT}",
            ]
        return f"coalesce({' OR '.join(doubts)}, FALSE)"

    def _malformed(self) -> str:
        """Return the condition that the row is not a JSON object."""
        root = f"{_STEP}.p0"
        doubt = field_path(root, [self._parses[0].doubt])
        start = f"trim(LEADING ' \\t\\r\\n' FROM {self._text})"
        return (
            f"CASE WHEN {root} IS NULL THEN TRUE WHEN {doubt} IS NULL THEN FALSE"
            f" WHEN get_json_object({self._text}, '$') IS NULL THEN TRUE ELSE NOT startswith({start}, '{{') END"
        )

    def _has_one_document(self) -> str:
        """Return the condition that there is nothing but separators behind the first document of a row that is not malformed.

        Without Tideline's functions, the row must be the first element of an array: text behind the document breaks the array or comes
        before the element that follows. This costs a parse.
        """
        if self._documents is not None:
            return f"size({self._documents}) = 1"
        row = f"trim(TRAILING ' \\t\\r\\n,\\u001e' FROM {self._text})"
        array = f"concat('[', {row}, ',\"{_END}\"]')"
        return f"endswith({row}, '}}') AND get_json_object({array}, '$[1]') <=> '{_END}'"

    def _column(self, slot: Slot) -> str:
        if slot.state is SlotState.RESERVED:
            lost = ("malformed", "trailing IS NOT NULL")
            whole = [f"WHEN {_STEP}.{each} THEN {self._text}" for each in lost]
            return f"CASE {' '.join(whole)} WHEN {self._lost_any_value()} THEN {self._text} END"
        if slot.state is SlotState.EMPTY or slot.key is None:
            return f"CAST(NULL AS {slot.type.hive})"
        return self._fitted_value(slot.key)

    def _lost_any_value(self) -> str:
        conditions = [
            f"CASE WHEN {_STEP}.t{n} IS NULL THEN FALSE ELSE {self._lost_any_of(parse.types)} END"
            for n, parse in enumerate(self._parses)
            if parse.has_typed
        ]
        return _any([*conditions, *([self._lost_any_of(self.quoted)] if self.quoted else [])])

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
        if key in self.quoted:
            return read_number(value, column_type)
        if column_type is ColumnType.STRING:
            return value
        # Of two members of one name, the reader keeps the first if the second does not fit; doubtful rows show the text of the last.
        text, texts = self._original_text(key), f"{_STEP}.t{self._serving[key]}"
        same = f"{text} = CAST({value} AS STRING)"
        if column_type is ColumnType.DOUBLE:
            integer = f"{value} = floor({value}) AND {text} = CAST(floor({value}) AS STRING)"
            same += f" OR (abs({value}) <= {_EXACT} AND {integer})"
        fitting = f"try_cast({value} AS TINYINT)" if column_type is ColumnType.TINYINT else value
        return f"CASE WHEN {texts} IS NULL THEN {fitting} WHEN {same} THEN {fitting} END"

    def _is_text(self, key: KeyPath) -> bool:
        return key in self.quoted or self._types[key] is ColumnType.STRING

    def _value(self, key: KeyPath) -> str:
        return field_path(f"{_STEP}.p{self._serving[key]}", key.members)

    def _original_text(self, key: KeyPath) -> str:
        """Return the text of the value for doubtful rows, NULL for others."""
        if self._is_text(key):
            return self._value(key)
        return field_path(f"{_STEP}.t{self._serving[key]}", key.members)


def _apply(function: str, values: Sequence[str]) -> str:
    """Return the greatest or least value that is not NULL; Spark's functions need at least two arguments."""
    return f"{function}({', '.join(values)})" if len(values) > 1 else values[0]


def _struct(fields: Mapping[str, str]) -> str:
    return f"named_struct({', '.join(f'{literal(name)}, {value}' for name, value in fields.items())})"


def _any(conditions: Iterable[str]) -> str:
    """Return whether a condition holds. Unlike a chain of ORs, COALESCE is compiled in pieces and supports hundreds of them."""
    pieces = [f"CASE WHEN {condition} THEN TRUE END" for condition in conditions]
    return f"coalesce({', '.join([*pieces, 'FALSE'])})"
