"""Miner: finds the keys that a query requests, and mines the queries of a source into the key log.

A text passes up to four steps, and most texts of a query log stop at one of the first two:

1. a quick check whether the text can use a raw table at all;
2. a lookup of its fingerprint among the texts read before;
3. the parsers of its dialects, one after the other;
4. the scanner, for texts that no parser accepts.

The miner remembers a limited number of fingerprints. If it has dropped the fingerprint of a text, it reads
the text again, with the same result.
"""

from __future__ import annotations

import re
from collections import Counter, OrderedDict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from streaming.keylog.records import KeyRequest
from streaming.mining.aliases import Aliases
from streaming.mining.json_functions import functions_by_name
from streaming.mining.model import NOTHING, TOO_LARGE, Form, MinedKeys, Parser, Unresolved
from streaming.mining.python_program import ProgramReader
from streaming.mining.python_syntax import is_program, parse_program, read_magic
from streaming.mining.raw_tables import RawTables
from streaming.mining.scanner import Scanner
from streaming.mining.spark_plan import read_plan_keys
from streaming.mining.templates import resolve_templates
from streaming.mining.tokens import TokenList, fingerprint, measure_nesting


if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from streaming.mining.model import MiningRules, QueryText, RawTable
    from streaming.mining.sources.source import DeadInput, QuerySource


_DIALECTS: Final = {Form.SQL: (Parser.HIVE, Parser.DATABRICKS), Form.TRINO: (Parser.TRINO,), Form.PLAN: ()}
_COLON_DIALECTS: Final = (Parser.DATABRICKS, Parser.HIVE)
_HAS_COLON: Final = re.compile(r"[\w)\]`]\s*:\s*[A-Za-z_\[`\"']")
_IS_TRINO: Final = re.compile(
    r"\b(?:row|json_table|json_exists|json_value|json_query|unnest)\s*\(", re.IGNORECASE
)
_SHORT_CHARS: Final = 2_000
"""In a shorter text, operators without brackets (NOT NOT …) cannot exhaust the stack."""
DEAD_INPUTS_MAX: Final = 20
"""Unreadable inputs that a report describes; all are counted."""
_STRING_DEPTH_MAX: Final = 2
"""Code in a string inside code in a string is read; deeper nesting is not."""


class KeySink(Protocol):
    """Stores requested keys; ``streaming.keylog.log.KeyLog`` implements it."""

    def position(self, source: str) -> str | None:
        """Return the position up to which ``source`` was read."""

    def record(self, requests: Iterable[KeyRequest], *, source: str, position: str | None) -> object:
        """Record ``requests`` and the position, both or neither."""


class Question(NamedTuple):
    """A text to read."""

    text: str
    form: Form
    database: str | None


class TextReader(Protocol):
    """Reads texts; ``Miner`` and ``text_worker.TextWorker`` implement it."""

    def read_all(self, questions: Sequence[Question]) -> list[MinedKeys]:
        """Return the keys that each text requests."""


@dataclass(slots=True)
class MiningReport:
    """The result of mining a source once."""

    queries: int = 0
    queries_with_keys: int = 0
    key_requests: int = 0
    parsers: Counter[Parser] = field(default_factory=Counter)
    unresolved: Counter[Unresolved] = field(default_factory=Counter)
    dead: Counter[str] = field(default_factory=Counter)
    """Number of unreadable inputs by error code."""
    dead_inputs: list[DeadInput] = field(default_factory=list)
    """The first unreadable inputs, with file and reason."""


class Miner:
    """Finds the keys that texts request, and remembers them by fingerprint. Not thread-safe."""

    def __init__(self, rules: MiningRules, reader: TextReader | None = None) -> None:
        """``reader``, for example ``text_worker.TextWorker``, reads texts instead of this object."""
        self.rules = rules
        self._reader = reader or self
        self._functions = functions_by_name(rules.functions)
        self._tables = RawTables(rules, self._functions)
        self._known: OrderedDict[tuple[str, str | None], MinedKeys] = OrderedDict()

    def mine(self, query: QueryText) -> tuple[str, MinedKeys]:
        """Return the text's fingerprint and the keys it requests. The fingerprint is "" if the text cannot
        use a raw table.
        """
        return self.mine_all([query])[0]

    def mine_all(self, queries: Sequence[QueryText]) -> list[tuple[str, MinedKeys]]:
        """Return the fingerprint and the keys of each text, like ``mine``, but read new texts together."""
        marks = [self._mark(query) for query in queries]
        unread = {
            (mark, query.database): Question(query.text, form, query.database)
            for query, (mark, form, _) in zip(queries, marks, strict=True)
            if mark and (mark, query.database) not in self._known
        }
        fresh = dict(zip(unread, self._reader.read_all(list(unread.values())), strict=True))
        answers = []
        for query, (mark, _, known) in zip(queries, marks, strict=True):
            key = (mark, query.database)
            answers.append((mark, (fresh.get(key) or self._known[key]) if mark else known))
            if key in self._known:
                self._known.move_to_end(key)
        self._known.update(fresh)
        while len(self._known) > self.rules.remembered:
            self._known.popitem(last=False)
        return answers

    def _mark(self, query: QueryText) -> tuple[str, Form, MinedKeys]:
        """Return the fingerprint and the form of a text; if it need not be read, "" and its keys."""
        if len(query.text) > self.rules.text_chars:
            may_use = self._tables.may_use(query.text[: self.rules.text_chars])
            return "", query.form, TOO_LARGE if may_use else NOTHING
        if not self._tables.may_use(query.text):
            return "", query.form, NOTHING
        form = Form.PYTHON if query.form is Form.SQL and is_program(query.text) else query.form
        return fingerprint(query.text, form, self._functions), form, NOTHING

    def read_all(self, questions: Sequence[Question]) -> list[MinedKeys]:
        """Read texts, regardless of remembered fingerprints."""
        return [self.read(*question) for question in questions]

    def read(self, text: str, form: Form, database: str | None) -> MinedKeys:
        """Read one text, regardless of remembered fingerprints."""
        if form is Form.PLAN:
            return read_plan_keys(text, self._tables, self._functions)
        current = (database or self.rules.default_database).lower()
        if form is Form.PYTHON:
            program = self._read_program(text, current)
            if program is not None:
                return program
            form = Form.SQL  # a program in another language, or a statement
        text = resolve_templates(text, self._tables.columns)
        keys = self._parse(text, form, current)
        return keys if keys is not None else self._scan(text, form, current, _STRING_DEPTH_MAX)

    def _parse(self, text: str, form: Form, database: str) -> MinedKeys | None:
        """Return the result of the first parser that accepts the text; None if none does."""
        if self._is_deep(text):
            return None
        from streaming.mining.sql.parser import NotParsed, parse_statements
        from streaming.mining.sql.queries import ScriptReader

        for parser in _order_dialects(text, form):
            try:
                return ScriptReader(self._tables, self._functions, database).run(
                    parse_statements(text, parser.value, self._functions), parser
                )
            except (NotParsed, RecursionError):
                continue
        return None

    def _read_program(self, text: str, database: str) -> MinedKeys | None:
        """Read a Python program; None if the text is not one."""
        tree = None if self._is_deep(text) else parse_program(text)
        if tree is None:
            return None
        reader = ProgramReader(
            self._tables,
            self._functions,
            database,
            lambda query: self.read(query, Form.SQL, database),
            lambda query: self._find_tables(query, database),
        )
        try:
            results = reader.run(tree)
        except RecursionError:
            return None
        magic = read_magic(text)
        if self._tables.may_use(magic):
            results.append(self.read(magic, Form.SQL, database))
        return _join(results, Parser.PYTHON)

    def _find_tables(self, text: str, database: str) -> Iterator[RawTable]:
        """Yield the raw tables that a query names."""
        tokens = TokenList(resolve_templates(text, self._tables.columns), self._functions, is_trino=False)
        aliases = Aliases(tokens, self._tables, database)
        aliases.find([])
        yield from (table for table, _ in aliases.raw.values())

    def _is_deep(self, text: str) -> bool:
        """Whether a text is too long or too deeply nested for a recursive parser."""
        may_be_deep = len(text) > _SHORT_CHARS or text.count("(") > self.rules.nesting
        is_deep = may_be_deep and measure_nesting(text) > self.rules.nesting
        return is_deep or len(text) > self.rules.parsed_chars

    def _scan(self, text: str, form: Form, database: str, depth_max: int) -> MinedKeys:
        """Scan a text, then the contents of its strings: SQL inside a program, or inside SQL that no parser
        accepts.
        """
        tokens = TokenList(text, self._functions, is_trino=form is Form.TRINO)
        scan = Scanner(tokens, Aliases(tokens, self._tables, database), self._functions)
        results = [scan.run(Parser.SCANNER)]
        inside = [inner for inner in scan.strings() if self._tables.may_use(inner)] if depth_max else []
        results.extend(
            self._parse(inner, form, database) or self._scan(inner, form, database, depth_max - 1)
            for inner in inside
        )
        return _join(results)


def _order_dialects(text: str, form: Form) -> Iterator[Parser]:
    """Yield the dialects to try, in order. The order matters: Hive's parser reads ``json:a`` as a column and
    its alias.
    """
    has_colon = form is Form.SQL and ":" in text and _HAS_COLON.search(text) is not None
    yield from _COLON_DIALECTS if has_colon else _DIALECTS[form]
    if form is Form.SQL and _IS_TRINO.search(text):
        yield Parser.TRINO


def _join(results: list[MinedKeys], parser: Parser = Parser.SCANNER) -> MinedKeys:
    if len(results) == 1:
        return results[0]
    keys = {(table.name, key): (table, key) for each in results for table, key in each.keys}
    unresolved: Counter[Unresolved] = Counter()
    for each in results:
        unresolved.update(each.unresolved)
    return MinedKeys(tuple(keys[name] for name in sorted(keys)), unresolved, parser)


def mine(
    source: QuerySource, miner: Miner, sink: KeySink, *, is_stopped: Callable[[], bool] = lambda: False
) -> MiningReport:
    """Mine everything after the recorded position of ``source``. Ends early, between two batches, if
    ``is_stopped`` returns True.

    Raises the errors of the source and the sink; batches recorded before stay recorded.
    """
    report = MiningReport()
    for batch in source.batches(sink.position(source.name)):
        sink.record(_key_requests(batch.queries, miner, report), source=source.name, position=batch.position)
        report.dead.update(dead.code for dead in batch.dead)
        report.dead_inputs += batch.dead[: DEAD_INPUTS_MAX - len(report.dead_inputs)]
        if is_stopped():
            break
    return report


def _key_requests(queries: Sequence[QueryText], miner: Miner, report: MiningReport) -> list[KeyRequest]:
    """Return the requests of a batch of queries; equal ones are counted together."""
    counts: dict[KeyRequest, int] = {}
    for query, (mark, mined) in zip(queries, miner.mine_all(queries), strict=True):
        report.queries += 1
        report.queries_with_keys += bool(mined.keys)
        report.parsers[mined.parser] += 1
        report.unresolved.update(mined.unresolved)
        for table, key in mined.keys:
            request = KeyRequest(table.name, key, query.user, query.at_s, mark)
            counts[request] = counts.get(request, 0) + 1
    report.key_requests += sum(counts.values())
    return [
        KeyRequest(each.raw_table, each.key, each.user, each.at_s, each.fingerprint, count)
        for each, count in counts.items()
    ]
