"""Compares the rows of all tables of two clusters, as their SQL engines read them.

A query of one table without aggregates is read directly by the engine and takes about 0.1 s; one that sorts
or counts starts a job and takes a second. Both engines work at the same time.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from dev.stack.hive.sql_session import Session


Rows = dict[str, list[tuple[str, ...]]]


def read_rows(address: str, db: str, tables: Sequence[str]) -> Rows:
    """Return the rows of each table, sorted."""
    with Session.connect(address) as sql:
        return {table: sorted(sql.rows(f"select * from {db}.{table}")) for table in tables}


def find_unequal_rows(source: tuple[str, str], target: tuple[str, str], tables: Sequence[str]) -> list[str]:
    """Return a line for each table whose rows differ; a side is the address of its engine and its
    database."""
    with ThreadPoolExecutor(2) as pool:
        ours, theirs = pool.map(lambda side: read_rows(side[0], side[1], tables), (source, target))
    return [
        f"{table}: {ours[table]} at the source, {theirs[table]} on the target"
        for table in tables
        if ours[table] != theirs[table]
    ]
