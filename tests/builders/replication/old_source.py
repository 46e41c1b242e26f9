"""What a client of an older metastore writes, without a SQL engine: tables of text files, and their rows."""

from __future__ import annotations

from pathlib import Path

from dev.fixtures.hive_tables import a_table
from dev.fixtures.writing_client import WritingMetastore
from handlers.structs.notifications import InsertEventRequestData
from handlers.structs.objects import SerDeInfo, Table


def text_table(db: str, name: str, **options: object) -> Table:
    """Return a table of text files."""
    table = a_table(db, name, **options)  # type: ignore[arg-type]
    table.sd.inputFormat = "org.apache.hadoop.mapred.TextInputFormat"
    table.sd.outputFormat = "org.apache.hadoop.hive.ql.io.HiveIgnoreKeyTextOutputFormat"
    table.sd.serdeInfo = SerDeInfo(serializationLib="org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe")
    return table


def write_rows(location: str | None, name: str, rows: str) -> str:
    """Write a file below a location; return its URI."""
    path = Path((location or "").removeprefix("file:").replace("//", "/")) / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(rows)
    return f"file:{path}"


def insert_rows(client: WritingMetastore, db: str, name: str, rows: str, file_name: str = "000000_0") -> None:
    """Insert rows into a table without partitions, and log it."""
    file = write_rows(client.get_table(db, name).sd.location, file_name, rows)
    client.fire_insert_event(db, name, InsertEventRequestData(filesAdded=[file], filesAddedChecksum=[""]))
