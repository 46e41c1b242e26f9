"""Databases and tables on a real Hive 4: create, alter, rename, compare-and-set, and drop."""

from __future__ import annotations

import pytest

from dev.fixtures.hive_tables import ACID, a_table
from dev.fixtures.writing_client import WritingMetastore
from handlers.metastore.calls import HiveVersion, PlainCall
from handlers.structs.objects import Database, FieldSchema, PrincipalType
from state.errors import AlreadyExists, InvalidRequest, NotFound


KEEP = {"DO_NOT_UPDATE_STATS": "true"}


def test_the_hive_version_is_determined_by_asking_the_server(client: WritingMetastore) -> None:
    assert client._invoke(PlainCall("getVersion", str, changes=False)).startswith("4.")
    assert client.hive_version >= HiveVersion(4, 0)
    assert client.supports("get_all_write_event_info")


def test_settings_of_the_server_are_returned_except_for_secret_ones(client: WritingMetastore) -> None:
    assert client.config_value("metastore.repl.cm.enabled") == "true"
    assert client.config_value("hive.no.such.setting", "a default") == "a default"
    with pytest.raises(InvalidRequest) as refused:
        client.config_value("javax.jdo.option.ConnectionPassword")
    assert refused.value.context["hive"] == "ConfigValSecurityException"


def test_a_database_is_created_once_changed_and_dropped(client: WritingMetastore, database: str) -> None:
    wanted = Database(
        name=database, description="d", ownerName="o", ownerType=PrincipalType.USER, parameters={"a": "1"}
    )
    client.create_database(wanted)
    with pytest.raises(AlreadyExists):
        client.create_database(wanted)
    stored = client.get_database(database)
    assert (stored.ownerName, stored.description, stored.parameters) == ("o", "d", {"a": "1"})
    stored.parameters = {"a": "2", "b": "3"}
    client.alter_database(database, stored)
    assert client.get_database(database).parameters == {"a": "2", "b": "3"}
    assert database in client.database_names()
    client.drop_database(database)
    with pytest.raises(NotFound) as missing:
        client.get_database(database)
    assert missing.value.context["hive"] == "NoSuchObjectException"
    assert database in str(missing.value.context["reason"])


def test_a_database_with_tables_is_dropped_only_with_cascade(client: WritingMetastore, db: str) -> None:
    client.create_table(a_table(db, "t"))
    with pytest.raises(InvalidRequest):
        client.drop_database(db)


def test_a_transactional_table_is_returned_as_it_was_sent(client: WritingMetastore, db: str) -> None:
    client.create_table(
        a_table(
            db, "t", parameters={**ACID, "note": "a\nb"}, columns=[("id", "int"), ("x", "map<string,int>")]
        )
    )
    stored = client.get_table(db, "t")
    assert stored.tableType == "MANAGED_TABLE"
    assert stored.parameters is not None
    assert stored.parameters.items() >= {**ACID, "note": "a\nb"}.items()
    assert [(c.name, c.type) for c in stored.sd.cols or []] == [("id", "int"), ("x", "map<string,int>")]
    with pytest.raises(AlreadyExists):
        client.create_table(a_table(db, "t"))
    assert client.table_names(db) == ["t"]
    assert [t.tableName for t in client.get_tables(db, ["t", "nowhere"])] == ["t"]


def test_a_table_in_a_missing_database_is_not_found_or_refused(client: WritingMetastore) -> None:
    with pytest.raises((NotFound, InvalidRequest)):
        client.create_table(a_table("no_such_database", "t"))
    with pytest.raises(NotFound):
        client.get_table("no_such_database", "t")


def test_a_table_is_changed_and_renamed(client: WritingMetastore, db: str) -> None:
    client.create_table(a_table(db, "before", external=True))
    table = client.get_table(db, "before")
    table.sd.cols = [*(table.sd.cols or []), FieldSchema(name="more", type="string", comment="c")]
    client.alter_table(db, "before", table, environment=KEEP)
    assert [c.name for c in client.get_table(db, "before").sd.cols or []] == ["id", "more"]
    table.tableName = "after"
    client.alter_table(db, "before", table, environment=KEEP)
    assert client.table_names(db) == ["after"]
    with pytest.raises(NotFound):
        client.get_table(db, "before")


def test_a_change_can_depend_on_the_value_of_a_parameter(client: WritingMetastore, db: str) -> None:
    client.create_table(a_table(db, "t", external=True, parameters={"version": "1"}))
    table = client.get_table(db, "t")
    table.parameters = {**(table.parameters or {}), "version": "2"}
    client.alter_table(db, "t", table, expected=("version", "1"))
    table.parameters["version"] = "3"
    with pytest.raises(InvalidRequest) as refused:
        client.alter_table(db, "t", table, expected=("version", "1"))
    assert "version" in str(refused.value.context["reason"])
    assert (client.get_table(db, "t").parameters or {})["version"] == "2"


def test_a_table_is_dropped_once(client: WritingMetastore, db: str) -> None:
    client.create_table(a_table(db, "t", external=True))
    client.create_table(a_table(db, "u", external=True))
    client.drop_table(db, "t", delete_data=False)
    client.drop_table(db, "u", environment={"ifPurge": "TRUE"})
    assert client.table_names(db) == []
    with pytest.raises(NotFound):
        client.drop_table(db, "t")


def test_a_transactional_table_is_truncated_under_a_write_id(client: WritingMetastore, db: str) -> None:
    client.create_table(a_table(db, "t", parameters=ACID))
    (txn,) = client.open_txns()
    write_id = client.allocate_write_ids(db, "t", [txn])[txn]
    (ids,) = client.valid_write_ids([f"{db}.t"])
    client.truncate_table(db, "t", write_id=write_id, valid_write_ids=ids.format())
    client.commit_txn(txn)


def test_names_are_sent_as_given_and_stored_in_lower_case(client: WritingMetastore, db: str) -> None:
    client.create_table(a_table(db, "MixedCase", external=True))
    assert client.table_names(db) == ["mixedcase"]
    assert client.get_table(db.upper(), "MIXEDCASE").tableName == "mixedcase"


def test_characters_beyond_the_basic_plane_are_preserved(client: WritingMetastore, db: str) -> None:
    client.create_table(a_table(db, "t", external=True, parameters={"emoji": "\N{WATER WAVE} ä"}))
    assert (client.get_table(db, "t").parameters or {})["emoji"] == "\N{WATER WAVE} ä"
