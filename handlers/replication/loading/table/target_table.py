"""The target's table during its load.

It carries the parameter ``tideline.load`` with the id of the load until it is complete: no reader mistakes it
for a finished one, and a restarted load continues with it. A transactional table shows none of its rows until
it has write ids, which it gets last and at once. Before that, the table stores the result of the load
(``tideline.load.result``): a restart in between returns the same event and write id, and does not mistake
rows of a later snapshot for those that the table shows.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Final

from handlers.failpoints import failpoint
from handlers.replication.effects.accuracy_marks import remove_unreliable
from handlers.replication.effects.avro_schemas import SchemaFiles
from handlers.replication.loading.reuse import forget_write_ids, is_same_kind
from handlers.replication.loading.table.snapshot import TableSnapshot
from handlers.replication.loading.table.statistics import adjust_statistics
from handlers.replication.loading.table.tools import LoadTools
from handlers.replication.policy.replicability import find_obstacle
from handlers.replication.tables.table_loads import LoadedTable, TableLoad
from handlers.replication.target.objects import (
    KEEP_STATISTICS,
    is_external,
    is_transactional,
    map_external_location,
    owns_data,
    to_target_table,
    translate_plain_table,
)
from handlers.structs.objects import Table
from state.errors import NotFound, TargetDiverged
from state.transactions.valid_write_ids import ValidWriteIds


LOAD: Final = "tideline.load"
ORIGIN: Final = "tideline.load.origin"
"""Identifies the table at the source, to distinguish it from a new one of the same name."""
RESULT: Final = "tideline.load.result"
_OWN: Final = (LOAD, ORIGIN, RESULT)


class TargetTable:
    """The table that one load creates."""

    def __init__(self, load: TableLoad, tools: LoadTools) -> None:
        self._load = load
        self._tools = tools
        self._target = tools.target
        self._policy = tools.policy
        self._schemas = SchemaFiles(tools)
        self._is_absent = False
        """Whether the target did not have the table, and this load has not created it since."""

    def find_result(self) -> LoadedTable | None:
        """Return the result of this load if an earlier run has stored it: only the last steps are left."""
        table = self._get()
        self._is_absent = table is None
        parameters = {} if table is None else table.parameters or {}
        if parameters.get(LOAD) != self._load.load_id or RESULT not in parameters:
            return None
        event_id, write_id, files, size_bytes = map(int, parameters[RESULT].split(":"))
        return LoadedTable(self._load.table, event_id, write_id, files, size_bytes)

    def remove(self) -> None:
        """Drop the table if it exists, with its data if Hive owns it."""
        table = self._get()
        if table is not None:
            with suppress(NotFound):
                self._target.drop_table(
                    self._policy.target_db, self._load.table, delete_data=owns_data(table)
                )

    def remove_replicated(self) -> None:
        """Drop the table if it exists and can be a replica; otherwise another client created it."""
        table = self._get()
        if table is not None and self._can_be_ours(table):
            self.remove()

    def _can_be_ours(self, table: Table) -> bool:
        return find_obstacle(table, self._policy) is None

    def create(self, snapshot: TableSnapshot) -> Table:
        """Create the table, or update the one that an earlier run of this load created; drop any other table
        of this name first.
        """
        source = snapshot.table
        assert source is not None
        origin = f"{source.createTime}/{source.id}"
        table = None if self._is_absent else self._get()
        self._is_absent = False
        if table is not None and not self._is_ours(table, source, origin):
            self.remove()
            table = None
        external = map_external_location(source.sd.location, self._policy) if is_external(source) else None
        location = external if table is None else table.sd.location
        definition = self._define(snapshot, location)
        definition.parameters = {**(definition.parameters or {}), LOAD: self._load.load_id, ORIGIN: origin}
        if table is None:
            if snapshot.write_id:
                self._forget_write_ids()
            definition.writeId = None
            self._target.create_table(definition, environment=KEEP_STATISTICS)
        else:
            self._alter(definition)
        failpoint("load.after-create")
        return self._target.get_table(self._policy.target_db, self._load.table)

    def _forget_write_ids(self) -> None:
        """Make the target forget the write ids of a dropped plain table of this name. Hive 3.1 allocates a
        write id before it makes a plain table insert-only, and Hive 4 keeps the write ids of dropped plain
        tables. The target would then not accept new ones.
        """
        if self._target.highest_write_id(self._policy.target_db, self._load.table):
            forget_write_ids(self._load.table, None, self._target, self._policy)

    def _is_ours(self, table: Table, source: Table, origin: str) -> bool:
        parameters = table.parameters or {}
        return (
            (parameters.get(LOAD), parameters.get(ORIGIN)) == (self._load.load_id, origin)
            and RESULT not in parameters
            and is_same_kind(table, source, self._target)
        )

    def _define(self, snapshot: TableSnapshot, location: str | None) -> Table:
        """Return the table in the target's form; statistics of rows that the snapshot does not contain
        lose the mark of accuracy.
        """
        assert snapshot.table is not None
        table = to_target_table(self._schemas.place(snapshot.table.copy()), self._policy, location)
        if location is not None:
            # A table that is being created has no location yet; the target then chooses its location and its
            # kind.
            translate_plain_table(table, self._target)
        table.parameters = {k: v for k, v in (table.parameters or {}).items() if k not in _OWN}
        remove_unreliable([table], table, self._tools.source)
        table.writeId = adjust_statistics(table.parameters, table.writeId, snapshot.valid)
        return table

    def store_result(self, snapshot: TableSnapshot, location: str | None, result: LoadedTable) -> None:
        """Store the result in the table, with the table's final definition."""
        definition = self._define(snapshot, location)
        text = f"{result.event_id}:{result.write_id}:{result.files}:{result.size_bytes}"
        definition.parameters = {**(definition.parameters or {}), LOAD: self._load.load_id, RESULT: text}
        self._alter(definition)
        failpoint("load.after-result")

    def complete_without_write_ids(self, snapshot: TableSnapshot, location: str | None) -> None:
        """Give the table its final definition,
        without the parameters of the load, if it has no write ids to show.
        """
        assert snapshot.write_id == 0, snapshot.write_id
        failpoint("load.before-finish")
        self._alter(self._define(snapshot, location))
        failpoint("load.after-finish")

    def show_write_ids(self, result: LoadedTable) -> None:
        """Give a transactional table its write ids, which shows all its rows at once, and check them.

        The list names no aborted ids, although the source may know some. Hive would open and abort a
        transaction for each, and then hide every row above the lowest of them until its cleaner forgets them
        (reference: hive-replication.md §0c.3). No file of an aborted write id is on the target, so there is
        nothing to hide.
        """
        if result.write_id == 0:
            return
        db, table = self._policy.target_db, self._load.table
        expected = ValidWriteIds(f"{db}.{table}", result.write_id)
        self._target.repl_table_write_ids(db, table, expected.format())
        failpoint("load.after-write-ids")
        answer = self._target.valid_write_ids([expected.table])[0]
        if answer != expected or self._target.highest_write_id(db, table) != result.write_id:
            raise TargetDiverged(
                "the target did not accept the write ids of the source",
                table=expected.table,
                expected=expected.format(),
                answer=answer.format(),
                hint="Another client writes to the replica: stop it. Tideline repeats the load.",
            )

    def finish(self) -> None:
        """Remove the parameters of the load: the table is complete."""
        table = self._target.get_table(self._policy.target_db, self._load.table)
        table.parameters = {k: v for k, v in (table.parameters or {}).items() if k not in _OWN}
        failpoint("load.before-finish")
        self._alter(table)
        failpoint("load.after-finish")

    def _get(self) -> Table | None:
        try:
            return self._target.get_table(self._policy.target_db, self._load.table)
        except NotFound:
            return None

    def _alter(self, table: Table) -> None:
        write_id = table.writeId if is_transactional(table) and (table.writeId or 0) > 0 else None
        table.writeId = write_id
        valid = None if write_id is None else ValidWriteIds(self._name, write_id).format()
        self._target.alter_table(
            self._policy.target_db,
            self._load.table,
            table,
            write_id=write_id,
            valid_write_ids=valid,
            environment=KEEP_STATISTICS,
        )

    @property
    def _name(self) -> str:
        return f"{self._policy.target_db}.{self._load.table}"
