"""Builds the SQL of one split: the parse for each key, and the expression of each column by the rule of
``splitter``.

Rows that are not plain are evaluated in steps, because each step uses the result of the previous one several
times. If they were steps of the query, Spark would copy all rows, including plain ones, and generate code for
hundreds of columns in every task. So each step is a function applied to an array with one element, which
Spark evaluates without generating code.

CASE keeps Spark from evaluating expressions that only few rows need. AND would not, because Spark extracts
common subexpressions from it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from state.columns.paths import KeyPath
from state.columns.slots import Layout, Slot, SlotState
from state.columns.types import DOUBLE_EXACT_MAX, ColumnType
from streaming.split.parse_schema import Parse, field_path, literal, plan_parses, quote


MALFORMED: Final = "_malformed"
TRAILING: Final = "_trailing"
"""Name of the text that says whether the row has more text after its first document, whose values are in no
column.
"""
JSON_OPTIONS: Final = {"allowNonNumericNumbers": "false", "allowUnquotedControlChars": "true"}
"""With these options the reader accepts and rejects the same documents as ``get_json_object`` (spark-4.0.md
§6)."""
SLOTS: Final = "_tideline_slots"
"""The column of ``split_packed`` with all slots as one STRUCT."""
PARSED: Final = "_tideline_parsed"
"""The STRUCT of a row: whether it is malformed, the slots, and the texts."""
STEP: Final = "_tideline_step"
"""The result of the step before (``SplitPlan``)."""
ROW: Final = "_tideline_row"
"""A number that Spark must not compute twice, so it does not move filters on the result below the split,
where they would parse every row again."""
_END: Final = "tideline: end of the row"
"""An element after a row, which shows whether the row has only one document."""
_EXACT: Final = f"{DOUBLE_EXACT_MAX}D"


class SplitPlan:
    """The SQL that splits rows into the slots of a layout and into ``texts``, the texts of further keys."""

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
        """For each text, the key that the parser of plain rows returns; None for a text that is read from its
        slot.
        """
        texts = {name: None if self._has_slot(key) else key for name, key in self._texts.items()}
        return {TRAILING: None, **texts}

    def any_row(self) -> str:
        """Return the STRUCT of any row, plain or not, with the fields for malformed rows, slots and texts."""
        reads = {
            f"p{n}": self._from_json(parse, parse.typed_schema()) for n, parse in enumerate(self._parses)
        }
        checked = {"malformed": self._malformed(), "read": STEP}
        parsed = {
            "malformed": f"{STEP}.malformed",
            "trailing": (
                f"CASE WHEN {STEP}.malformed THEN NULL WHEN {self._has_one_document()} THEN NULL ELSE '' END"
            ),
        }
        for n, parse in enumerate(self._parses):
            parsed[f"p{n}"] = f"CASE WHEN {STEP}.malformed THEN NULL ELSE {STEP}.read.p{n} END"
            if parse.has_typed:
                parsed[f"t{n}"] = (
                    f"CASE WHEN {STEP}.malformed THEN NULL WHEN {self._is_doubtful(n)}"
                    f" THEN {self._from_json(parse, parse.text_schema())} END"
                )
        slots = build_struct({slot.name: self._column(slot) for slot in self._slots})
        texts = {TRAILING: f"{STEP}.trailing"}
        texts |= {name: self._as_text(key) for name, key in self._texts.items()}
        rows = f"array({build_struct(reads)})"
        for step in (checked, parsed, {"malformed": f"{STEP}.malformed", "slots": slots, **texts}):
            rows = f"transform({rows}, {STEP} -> {build_struct(step)})"
        return f"element_at({rows}, 1)"

    def columns(self) -> Iterator[str]:
        """Return the columns of the result from the STRUCT of a row, as SQL with their names."""
        yield f"CASE WHEN {ROW} < 0 THEN TRUE ELSE {PARSED}.malformed END AS {MALFORMED}"
        yield f"{PARSED}.{TRAILING} IS NOT NULL AS {TRAILING}"
        for name, key in self._texts.items():
            text = f"{PARSED}.{quote(name)}"
            if self._has_slot(key):
                text = f"coalesce({text}, CAST({PARSED}.slots.{quote(self._live[key].name)} AS STRING))"
            yield f"{text} AS {quote(name)}"
        yield f"{PARSED}.slots AS {SLOTS}"

    def _has_slot(self, key: KeyPath) -> bool:
        """Whether the text of a key can be read from its slot."""
        return key in self._live and key not in self.quoted

    def _from_json(self, parse: Parse, schema: str) -> str:
        options = JSON_OPTIONS | {"columnNameOfCorruptRecord": parse.doubt}
        pairs = ", ".join(f"{literal(name)}, {literal(value)}" for name, value in options.items())
        return f"from_json({self._text}, {literal(schema)}, map({pairs}))"

    def _is_doubtful(self, n: int) -> str:
        """Return the condition that parse ``n`` may have lost a value of a row."""
        root, types = f"{STEP}.read.p{n}", self._parses[n].types
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
        root = f"{STEP}.p0"
        doubt = field_path(root, [self._parses[0].doubt])
        start = f"trim(LEADING ' \\t\\r\\n' FROM {self._text})"
        return (
            f"CASE WHEN {root} IS NULL THEN TRUE WHEN {doubt} IS NULL THEN FALSE"
            f" WHEN get_json_object({self._text}, '$') IS NULL THEN TRUE ELSE NOT startswith({start}, '{{') "
            "END"
        )

    def _has_one_document(self) -> str:
        """Return the condition that only separators follow the first document of a row that is not malformed.

        Without Tideline's functions, the condition puts the row into an array as its first element: text
        after the document breaks the array, or appears before the next element. This costs a parse.
        """
        if self._documents is not None:
            return f"size({self._documents}) = 1"
        row = f"trim(TRAILING ' \\t\\r\\n,\\u001e' FROM {self._text})"
        array = f"concat('[', {row}, ',\"{_END}\"]')"
        return f"endswith({row}, '}}') AND get_json_object({array}, '$[1]') <=> '{_END}'"

    def _column(self, slot: Slot) -> str:
        if slot.state is SlotState.RESERVED:
            lost = ("malformed", "trailing IS NOT NULL")
            whole = [f"WHEN {STEP}.{each} THEN {self._text}" for each in lost]
            return f"CASE {' '.join(whole)} WHEN {self._lost_any_value()} THEN {self._text} END"
        if slot.state is SlotState.EMPTY or slot.key is None:
            return f"CAST(NULL AS {slot.type.hive})"
        return self._fitted_value(slot.key)

    def _lost_any_value(self) -> str:
        conditions = [
            f"CASE WHEN {STEP}.t{n} IS NULL THEN FALSE ELSE {self._lost_any_of(parse.types)} END"
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
        # If two members have one name and the second does not fit, the reader keeps the first; doubtful rows
        # show the text of the last.
        text, texts = self._original_text(key), f"{STEP}.t{self._serving[key]}"
        same = f"{text} = CAST({value} AS STRING)"
        if column_type is ColumnType.DOUBLE:
            integer = f"{value} = floor({value}) AND {text} = CAST(floor({value}) AS STRING)"
            same += f" OR (abs({value}) <= {_EXACT} AND {integer})"
        fitting = f"try_cast({value} AS TINYINT)" if column_type is ColumnType.TINYINT else value
        return f"CASE WHEN {texts} IS NULL THEN {fitting} WHEN {same} THEN {fitting} END"

    def _is_text(self, key: KeyPath) -> bool:
        return key in self.quoted or self._types[key] is ColumnType.STRING

    def _value(self, key: KeyPath) -> str:
        return field_path(f"{STEP}.p{self._serving[key]}", key.members)

    def _original_text(self, key: KeyPath) -> str:
        """Return the text of the value for doubtful rows, NULL for others."""
        if self._is_text(key):
            return self._value(key)
        return field_path(f"{STEP}.t{self._serving[key]}", key.members)


def _apply(function: str, values: Sequence[str]) -> str:
    """Return the greatest or least value that is not NULL. Spark's functions need at least two arguments."""
    return f"{function}({', '.join(values)})" if len(values) > 1 else values[0]


def build_struct(fields: Mapping[str, str]) -> str:
    """Return a STRUCT with these fields, as SQL."""
    return f"named_struct({', '.join(f'{literal(name)}, {value}' for name, value in fields.items())})"


def _any(conditions: Iterable[str]) -> str:
    """Return whether one of the conditions holds. Unlike a chain of ORs, COALESCE compiles in pieces and
    supports hundreds of them.
    """
    pieces = [f"CASE WHEN {condition} THEN TRUE END" for condition in conditions]
    return f"coalesce({', '.join([*pieces, 'FALSE'])})"


def read_number(text: str, column_type: ColumnType) -> str:
    """Return the SQL of the number in the SQL expression ``text`` if a column of this type writes it in the
    same form as JSON; otherwise NULL.

    A DOUBLE also accepts integers.
    """
    typed = f"try_cast({text} AS {column_type.hive})"
    same = f"CAST({typed} AS STRING) = {text}"
    if column_type is ColumnType.DOUBLE:
        integer = f"try_cast({text} AS BIGINT)"
        bounds = f"{integer} BETWEEN -{DOUBLE_EXACT_MAX} AND {DOUBLE_EXACT_MAX}"
        same = (
            f"({same} AND abs({typed}) < double('Infinity')) OR (CAST({integer} AS STRING) = {text} AND "
            f"{bounds})"
        )
    return f"CASE WHEN {same} THEN {typed} END"
