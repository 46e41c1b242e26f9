"""What people decided about keys on the command line: always a column, never one, or of which type.

The configuration file gives the same for good; these are added to it, and win over it where they contradict. A key is not
always and never a column at once: the newer decision takes the older one's place.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from sqlalchemy import and_, delete, select

from state.columns.paths import KeyPath
from state.columns.types import ColumnType
from streaming.keylog.database import upsert
from streaming.keylog.records import decode_members, encode_members, make_storable
from streaming.keylog.schema import PATH_CHARS, USER_CHARS, digest, rules


if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from sqlalchemy import Connection

    from state.columns.rules import FlatRules
    from streaming.keylog.database import Merge
    from streaming.keylog.log import KeyLog


class RuleKind(StrEnum):
    """What a decision says."""

    ALWAYS = "always"
    SKIP = "skip"
    PIN = "pin"


@dataclass(frozen=True, slots=True)
class KeyRule:
    """One decision about a flat table's key."""

    flat_table: str
    kind: RuleKind
    subject: KeyPath | str
    """The key; for SKIP a pattern over the texts of keys, as in ``$.debug.*``."""
    type: ColumnType | None = None
    """Of a pin."""
    set_by: str = ""
    set_at_s: int = 0

    @property
    def text(self) -> str:
        """The key or pattern as people write it."""
        return self.subject.text if isinstance(self.subject, KeyPath) else self.subject

    def replaces(self, other: KeyRule) -> bool:
        """Whether ``other``, of the same flat table, goes when this one is set: the same one, or one that says the opposite."""
        return self.text == other.text and (
            self.kind is other.kind or RuleKind.SKIP in {self.kind, other.kind}
        )


@dataclass(frozen=True, slots=True)
class KeyRuleSet:
    """All decisions about one flat table, as ``FlatRules`` takes them."""

    always: frozenset[KeyPath]
    skip: tuple[str, ...]
    pins: Mapping[KeyPath, ColumnType]

    def apply_to(self, configured: FlatRules) -> FlatRules:
        """Return the configured rules with these decisions, which win: a key skipped here leaves the whitelist there.

        Raises ConfigError where the whitelist outgrows the cap on columns.
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
    """Store a decision, in place of one that says the opposite."""
    row = _row(rule, int(log.clock()))
    newest: dict[str, Merge] = dict.fromkeys(("type", "set_by", "set_at"), _newer)

    def work(connection: Connection) -> None:
        opposites = [RuleKind.ALWAYS, RuleKind.PIN] if rule.kind is RuleKind.SKIP else [RuleKind.SKIP]
        for kind in opposites:
            connection.execute(_deletion(rule.flat_table, kind, rule.text))
        upsert(connection, rules, [row], newest)

    log.database.write(work)


def remove_rule(log: KeyLog, flat_table: str, kind: RuleKind, text: str) -> bool:
    """Take a decision back; False where there is none. ``text`` is the key's text, or the pattern."""
    return log.database.write(
        lambda connection: connection.execute(_deletion(flat_table, kind, text)).rowcount > 0
    )


def read_rules(log: KeyLog, flat_table: str) -> list[KeyRule]:
    """Return the decisions about a flat table, by kind and key."""
    with log.database.read() as connection:
        wanted = select(rules).where(rules.c.flat_table == flat_table)
        found = [_rule(row) for row in connection.execute(wanted).mappings()]
    return sorted(found, key=lambda rule: (rule.kind, rule.text))


def read_rule_set(log: KeyLog, flat_table: str) -> KeyRuleSet:
    """Return what ``read_rules`` says, sorted out by kind."""
    return group_rules(read_rules(log, flat_table))


def group_rules(given: Iterable[KeyRule]) -> KeyRuleSet:
    """Return the rules of one flat table by their kinds."""
    found = list(given)
    keys = [(rule, rule.subject) for rule in found if isinstance(rule.subject, KeyPath)]
    return KeyRuleSet(
        always=frozenset(key for rule, key in keys if rule.kind is RuleKind.ALWAYS),
        skip=tuple(rule.text for rule in found if rule.kind is RuleKind.SKIP),
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
    return delete(rules).where(
        and_(
            rules.c.flat_table == flat_table,
            rules.c.kind == kind.value,
            rules.c.subject_digest == digest(text),
        )
    )
