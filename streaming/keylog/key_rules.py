"""Key rules: users' decisions about keys from the command line (always a column, never a column, or a given
type).

The configuration file can contain the same rules. Rules from the command line are added to these, and
override them if they contradict. A key cannot be always and never a column: the newer rule replaces the older
one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import Any

from sqlalchemy import Connection, and_, delete, select

from state.columns.paths import KeyPath
from state.columns.rules import FlatRules
from state.columns.types import ColumnType
from streaming.keylog.database import Merge, upsert
from streaming.keylog.log import KeyLog
from streaming.keylog.records import decode_members, encode_members, make_storable
from streaming.keylog.schema import PATH_CHARS, USER_CHARS, digest, rule_table


class RuleKind(StrEnum):
    """The kind of a rule."""

    ALWAYS = "always"
    SKIP = "skip"
    PIN = "pin"


@dataclass(frozen=True, slots=True)
class KeyRule:
    """One rule for a key of a flat table."""

    flat_table: str
    kind: RuleKind
    subject: KeyPath | str
    """The key; for SKIP a pattern for the texts of keys, as in ``$.debug.*``."""
    type: ColumnType | None = None
    """The type of a pin."""
    set_by: str = ""
    set_at_s: int = 0

    @property
    def text(self) -> str:
        """The key or pattern in the form in which users write it."""
        return self.subject.text if isinstance(self.subject, KeyPath) else self.subject

    def replaces(self, other: KeyRule) -> bool:
        """Whether this rule replaces ``other``, a rule of the same flat table: the same rule, or the opposite
        one.
        """
        return self.text == other.text and (
            self.kind is other.kind or RuleKind.SKIP in {self.kind, other.kind}
        )


@dataclass(frozen=True, slots=True)
class KeyRuleSet:
    """All key rules of one flat table, grouped as in ``FlatRules``."""

    always: frozenset[KeyPath]
    skip: tuple[str, ...]
    pins: Mapping[KeyPath, ColumnType]

    def apply_to(self, configured: FlatRules) -> FlatRules:
        """Return the configured rules with these rules added. These override the configuration: a key skipped
        here leaves its whitelist.

        Raises ConfigError if the whitelist exceeds the limit on columns.
        """
        kept = {
            key for key in configured.whitelist if not any(fnmatchcase(key.text, each) for each in self.skip)
        }
        return replace(
            configured,
            whitelist=frozenset(kept | self.always),
            skip=(*configured.skip, *self.skip),
            pins={**configured.pins, **self.pins},
        )


def set_rule(log: KeyLog, rule: KeyRule) -> None:
    """Store a rule, and remove an opposite one."""
    row = _row(rule, int(log.clock()))
    newest: dict[str, Merge] = dict.fromkeys(("type", "set_by", "set_at"), _newer)

    def work(connection: Connection) -> None:
        opposites = [RuleKind.ALWAYS, RuleKind.PIN] if rule.kind is RuleKind.SKIP else [RuleKind.SKIP]
        for kind in opposites:
            connection.execute(_deletion(rule.flat_table, kind, rule.text))
        upsert(connection, rule_table, [row], newest)

    log.database.write(work)


def remove_rule(log: KeyLog, flat_table: str, kind: RuleKind, text: str) -> bool:
    """Remove a rule; return False if there is none. ``text`` is the text of the key, or the pattern."""
    return log.database.write(
        lambda connection: connection.execute(_deletion(flat_table, kind, text)).rowcount > 0
    )


def read_rules(log: KeyLog, flat_table: str) -> list[KeyRule]:
    """Return the rules of a flat table, ordered by kind and key."""
    with log.database.read() as connection:
        query = select(rule_table).where(rule_table.c.flat_table == flat_table)
        rules = [_rule(row) for row in connection.execute(query).mappings()]
    return sorted(rules, key=lambda rule: (rule.kind, rule.text))


def read_rule_set(log: KeyLog, flat_table: str) -> KeyRuleSet:
    """Return the rules of a flat table, grouped by kind."""
    return group_rules(read_rules(log, flat_table))


def group_rules(key_rules: Iterable[KeyRule]) -> KeyRuleSet:
    """Group rules of one flat table by kind."""
    rules = list(key_rules)
    keys = [(rule, rule.subject) for rule in rules if isinstance(rule.subject, KeyPath)]
    return KeyRuleSet(
        always=frozenset(key for rule, key in keys if rule.kind is RuleKind.ALWAYS),
        skip=tuple(rule.text for rule in rules if rule.kind is RuleKind.SKIP),
        pins={key: rule.type for rule, key in keys if rule.kind is RuleKind.PIN and rule.type is not None},
    )


def _newer(_old: Any, new: Any) -> Any:
    return new


def _row(rule: KeyRule, now_s: int) -> dict[str, Any]:
    return {
        "flat_table": rule.flat_table,
        "kind": rule.kind.value,
        "subject_digest": digest(rule.text),
        "subject": make_storable(rule.text, PATH_CHARS),
        "members": encode_members(rule.subject) if isinstance(rule.subject, KeyPath) else "",
        "type": "" if rule.type is None else rule.type.name,
        "set_by": make_storable(rule.set_by, USER_CHARS),
        "set_at": now_s,
    }


def _rule(row: Mapping[Any, Any]) -> KeyRule:
    return KeyRule(
        flat_table=row["flat_table"],
        kind=RuleKind(row["kind"]),
        subject=decode_members(row["members"]) if row["members"] else row["subject"],
        type=ColumnType[row["type"]] if row["type"] else None,
        set_by=row["set_by"],
        set_at_s=row["set_at"],
    )


def _deletion(flat_table: str, kind: RuleKind, text: str) -> Any:
    return delete(rule_table).where(
        and_(
            rule_table.c.flat_table == flat_table,
            rule_table.c.kind == kind.value,
            rule_table.c.subject_digest == digest(text),
        )
    )
