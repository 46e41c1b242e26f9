"""The stack that the other integration tests use."""

from __future__ import annotations

import concurrent.futures
import threading

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from dev.fixtures.hive_tables import ACID, a_table
from dev.fixtures.writing_client import WritingMetastore
from dev.stack.endpoints import ClusterEndpoints
from dev.stack.errors import SqlFailed
from dev.stack.hive.sql_session import Session
from handlers.structs.objects import Database


DROPPED = 20
"""Databases. Without ``DropsInTurn``, a drop among the first hundred hung for a minute; without the index of
our schema, one of the first two."""


def test_an_acid_insert_is_logged_with_its_transaction_and_read_back(
    source_sql: Session, database: str
) -> None:
    source_sql.run(f"create database {database}")
    source_sql.run(
        f"create table {database}.t (id int, v string) stored as orc tblproperties ('transactional'='true')"
    )
    inserted = source_sql.run(f"insert into {database}.t values (1, 'a'), (2, null)")
    # Other tests write to the same metastore meanwhile; of these three events, only the allocation has the
    # name of its database.
    (allocated,) = (
        index
        for index, event in enumerate(inserted.events)
        if (event.event_type, event.database) == ("ALLOC_WRITE_ID_EVENT", database)
    )
    assert "OPEN_TXN" in inserted.event_types[:allocated]
    assert "COMMIT_TXN" in inserted.event_types[allocated:]
    result = source_sql.run(f"select * from {database}.t order by id")
    assert result.columns == ("t.id", "t.v")
    assert result.rows == (("1", "a"), ("2", "NULL"))


def test_a_refused_statement_raises_with_hives_error_number(source_sql: Session) -> None:
    with pytest.raises(SqlFailed, match="not found") as failure:
        source_sql.run("select * from no_such_table_anywhere")
    assert failure.value.code == 10001


def test_sessions_run_side_by_side_and_keep_their_own_settings(
    source: ClusterEndpoints, database: str
) -> None:
    with Session.connect(source.sql) as first, Session.connect(source.sql) as second:
        first.run(f"create database {database}")
        first.run(f"use {database}")
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            here, there = pool.map(lambda session: session.rows("select current_database()"), (first, second))
    assert (here, there) == ([(database,)], [("default",)])


def test_jobs_side_by_side_read_all_their_rows(source: ClusterEndpoints, database: str) -> None:
    count = f"select count(*) from {database}.t where n >= 0"
    limit = f"select n from {database}.t limit 1"
    with Session.connect(source.sql) as first, Session.connect(source.sql) as second:
        first.run(f"create database {database}")
        numbers = "select n from (select split(space(499999), ' ') a) x lateral view posexplode(a) y as n, v"
        first.run(f"create table {database}.t stored as orc as {numbers}")
        first.run("set hive.vectorized.execution.enabled=false")  # reads longer
        second.run("set hive.fetch.task.conversion=none")
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            counted = pool.submit(lambda: [first.rows(count) for _ in range(4)])
            limited = pool.submit(lambda: [second.rows(limit) for _ in range(4)])
    assert counted.result() == [[("500000",)]] * 4
    assert all(len(rows) == 1 for rows in limited.result())


def test_databases_are_dropped_while_transactions_commit(source: ClusterEndpoints, database: str) -> None:
    written, dropped = f"{database}_written", [f"{database}_dropped{n}" for n in range(DROPPED)]
    done = threading.Event()

    def write() -> None:
        with WritingMetastore(source.metastore) as metastore:
            while not done.is_set():
                txn, _ = metastore.open_write(written, "t")
                metastore.lock_for_insert(txn, written, "t")
                metastore.commit_txn(txn)

    with WritingMetastore(source.metastore) as metastore, concurrent.futures.ThreadPoolExecutor(3) as pool:
        for db in (written, *dropped):
            metastore.create_database(Database(name=db))
            metastore.create_table(a_table(db, "t", parameters=ACID))
        writers = [pool.submit(write) for _ in range(3)]
        try:
            for db in dropped:
                metastore.drop_database(db, cascade=True)
        finally:
            done.set()
    assert [writer.result() for writer in writers] == [None] * 3


def test_source_and_target_are_two_clusters(source_sql: Session, target_sql: Session, database: str) -> None:
    source_sql.run(f"create database {database}")
    assert (database,) in source_sql.rows("show databases")
    assert (database,) not in target_sql.rows("show databases")


def test_a_record_comes_back_from_kafka(kafka: str, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": kafka})
    admin.create_topics([NewTopic(topic, num_partitions=1, replication_factor=1)])[topic].result(20)
    producer = Producer({"bootstrap.servers": kafka})
    producer.produce(topic, b"hello")
    assert producer.flush(20) == 0
    consumer = Consumer({"bootstrap.servers": kafka, "group.id": "stack", "auto.offset.reset": "error"})
    consumer.assign([TopicPartition(topic, 0, 0)])
    record = consumer.poll(20)
    consumer.close()
    assert record is not None
    assert record.value() == b"hello"
