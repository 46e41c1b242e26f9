"""The one who mines: a quick look, the memory of fingerprints, then parser, next parser, scanner.

Most texts of a query log are nobody's of ours or have been seen before, and neither costs a parse. What is remembered is bounded;
a forgotten fingerprint is read again with the same outcome.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Protocol

from streaming.keylog.records import KeyRequest
from streaming.mining.aliases import Aliases
from streaming.mining.fingerprint import fingerprint
from streaming.mining.json_functions import functions_by_name
from streaming.mining.model import NOTHING, Form, MinedKeys, Parser, Unresolved
from streaming.mining.raw_tables import RawTables
from streaming.mining.scanner import Scanner
from streaming.mining.spark_plan import read_plan_keys
from streaming.mining.tokens import TokenList, measure_nesting


if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from streaming.mining.model import MiningRules, QueryText
    from streaming.mining.sources.source import QuerySource


_DIALECTS: Final = {Form.SQL: (Parser.HIVE, Parser.DATABRICKS), Form.TRINO: (Parser.TRINO,), Form.PLAN: ()}
_SHORT_CHARS: Final = 2_000
"""Too short for operators without brackets (NOT NOT …) to exhaust a stack."""
_STRINGS_DEEP: Final = 2
"""Code in a string in code is read; deeper is nobody's query."""


class KeySink(Protocol):
    """Where asked keys are kept; ``streaming.keylog.log.KeyLog`` is one."""

    def position(self, source: str) -> str | None:
        """Return how far ``source`` was read."""

    def record(self, asks: Iterable[KeyRequest], *, source: str, position: str | None) -> object:
        """Record ``asks`` and the position, both or neither."""


@dataclass(slots=True)
class MiningReport:
    """What one run of mining has come to."""

    queries: int = 0
    queries_with_keys: int = 0
    key_requests: int = 0
    parsers: Counter[Parser] = field(default_factory=Counter)
    unresolved: Counter[Unresolved] = field(default_factory=Counter)
    dead: Counter[str] = field(default_factory=Counter)
    """By error code."""


class Miner:
    """Mines texts. Not thread-safe."""

    def __init__(self, rules: MiningRules) -> None:
        self.rules = rules
        self._functions = functions_by_name(rules.functions)
        self._tables = RawTables(rules, self._functions)
        self._known: OrderedDict[tuple[str, str | None], MinedKeys] = OrderedDict()

    def mine(self, query: QueryText) -> tuple[str, MinedKeys]:
        """Return the text's fingerprint and what it asks for; "" as the fingerprint of a text that asks for nothing."""
        if len(query.text) > self.rules.text_chars:
            is_ours = self._tables.may_use(query.text[: self.rules.text_chars])
            return "", MinedKeys(unresolved=Counter({Unresolved.SIZE: 1})) if is_ours else NOTHING
        if not self._tables.may_use(query.text):
            return "", NOTHING
        mark = fingerprint(query.text, query.form, self._functions)
        known = self._known.get((mark, query.database))
        if known is None:
            known = self.read(query.text, query.form, query.database)
            self._known[mark, query.database] = known
            if len(self._known) > self.rules.remembered:
                self._known.popitem(last=False)
        else:
            self._known.move_to_end((mark, query.database))
        return mark, known

    def read(self, text: str, form: Form, database: str | None) -> MinedKeys:
        """Read one text, whatever was seen before."""
        if form is Form.PLAN:
            return read_plan_keys(text, self._tables, self._functions)
        here = (database or self.rules.default_database).lower()
        found = self._parsed(text, form, here)
        return found if found is not None else self._scanned(text, form, here, _STRINGS_DEEP)

    def _parsed(self, text: str, form: Form, database: str) -> MinedKeys | None:
        """Return what the first parser that takes the text makes of it; None where none does."""
        may_be_deep = len(text) > _SHORT_CHARS or text.count("(") > self.rules.nesting
        is_deep = may_be_deep and measure_nesting(text) > self.rules.nesting
        if is_deep or len(text) > self.rules.parsed_chars:
            return None
        from streaming.mining.sql.parser import NotParsed, parse_statements
        from streaming.mining.sql.queries import ScriptReader

        for parser in _DIALECTS[form]:
            try:
                return ScriptReader(self._tables, self._functions, database).run(
                    parse_statements(text, parser.value, self._functions), parser
                )
            except (NotParsed, RecursionError):
                continue
        return None

    def _scanned(self, text: str, form: Form, database: str, deep: int) -> MinedKeys:
        """Scan a text, then what its strings hold: SQL inside a program, or inside SQL that no parser takes."""
        tokens = TokenList(text, self._functions, is_trino=form is Form.TRINO)
        scan = Scanner(tokens, Aliases(tokens, self._tables, database), self._functions)
        found = [scan.run(Parser.SCANNER)]
        inside = [inner for inner in scan.strings() if self._tables.may_use(inner)] if deep else []
        found.extend(
            self._parsed(inner, form, database) or self._scanned(inner, form, database, deep - 1)
            for inner in inside
        )
        return _joined(found)


def _joined(found: list[MinedKeys]) -> MinedKeys:
    if len(found) == 1:
        return found[0]
    keys = {(table.name, key): (table, key) for each in found for table, key in each.keys}
    unresolved: Counter[Unresolved] = Counter()
    for each in found:
        unresolved.update(each.unresolved)
    return MinedKeys(tuple(keys[name] for name in sorted(keys)), unresolved, Parser.SCANNER)


def mine(
    source: QuerySource, miner: Miner, sink: KeySink, *, is_stopped: Callable[[], bool] = lambda: False
) -> MiningReport:
    """Mine everything that ``source`` has beyond its recorded position; stop early, between batches, when told to.

    Raises what the source and the sink raise; what was recorded before stays.
    """
    report = MiningReport()
    for batch in source.batches(sink.position(source.name)):
        sink.record(_key_requests(batch.queries, miner, report), source=source.name, position=batch.position)
        report.dead.update(dead.code for dead in batch.dead)
        if is_stopped():
            break
    return report


def _key_requests(queries: Iterable[QueryText], miner: Miner, report: MiningReport) -> list[KeyRequest]:
    """Return the requests of a batch of queries; equal ones are counted together."""
    counts: dict[KeyRequest, int] = {}
    for query in queries:
        mark, mined = miner.mine(query)
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
