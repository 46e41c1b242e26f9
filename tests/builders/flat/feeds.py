"""Sources of a flat table's events in tests: a directory of files or a topic; both remember what was sent."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from tests.builders.components.remote_files import open_directory
from tests.builders.flat.file_forms import PLAIN, FileForm, decode_file
from tests.builders.flat.naive_reader import as_text


TIMEOUT_S = 30.0


class Feed(Protocol):
    """One source of raw events."""

    @property
    def settings(self) -> dict[str, Any]:
        """The arguments of ``tests.crash.programs.flat_program`` for this source."""

    def land(self, rows: Sequence[Mapping[str, Any] | str | bytes]) -> None:
        """Send these rows and wait until all are acknowledged."""

    def sent(self) -> list[str]:
        """Return the texts of all rows sent."""


@dataclass
class DirectoryFeed:
    """A landing directory, on a disk unless ``landing`` is the URI of one elsewhere; each file is a batch.

    Its files have these ``forms`` in turn.
    """

    landing: Path | str
    number: int = 0
    forms: Sequence[FileForm] = (PLAIN,)

    @property
    def settings(self) -> dict[str, Any]:
        return {"landing": str(self.landing)}

    def land(self, rows: Sequence[Mapping[str, Any] | str | bytes]) -> None:
        form = self.forms[self.number % len(self.forms)]
        landing = open_directory(str(self.landing))
        if form.beside:
            landing.write(f"{self.number:04}{form.beside}", b"")
        landing.write(f"{self.number:04}{form.ending}", form.encode([encode(row) for row in rows]))
        self.number += 1

    def sent(self) -> list[str]:
        landing = open_directory(str(self.landing))
        return [as_text(line) for name in landing.files() for line in decode_file(name, landing.read(name))]


@dataclass
class TopicFeed:
    """A topic with several partitions; a batch has at most ``records`` records."""

    bootstrap: str
    topic: str
    records: int = 30
    partitions: int = 3

    def __post_init__(self) -> None:
        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        admin.create_topics([NewTopic(self.topic, self.partitions, 1)])[self.topic].result(TIMEOUT_S)
        self._producer = Producer({"bootstrap.servers": self.bootstrap})

    @property
    def settings(self) -> dict[str, Any]:
        return {"bootstrap": self.bootstrap, "topic": self.topic, "records": self.records}

    def land(self, rows: Sequence[Mapping[str, Any] | str | bytes]) -> None:
        for n, row in enumerate(rows):
            self._producer.produce(self.topic, encode(row), partition=n % self.partitions)
        assert self._producer.flush(TIMEOUT_S) == 0

    def sent(self) -> list[str]:
        consumer = Consumer(
            {
                "bootstrap.servers": self.bootstrap,
                "group.id": self.topic,
                "enable.auto.commit": False,
                "enable.partition.eof": True,
            }
        )
        try:
            consumer.assign([TopicPartition(self.topic, part, 0) for part in range(self.partitions)])
            return list(self._read(consumer))
        finally:
            consumer.close()

    def _read(self, consumer: Consumer) -> Iterator[str]:
        ended = 0
        while ended < self.partitions:
            message = consumer.poll(TIMEOUT_S)
            assert message is not None, "the broker is silent"
            error = message.error()
            if error is None:
                yield as_text(message.value() or b"")
            else:
                assert error.code() == KafkaError._PARTITION_EOF, error
                ended += 1


def encode(row: Mapping[str, Any] | str | bytes) -> bytes:
    """Return the bytes of a row."""
    if isinstance(row, bytes):
        return row
    return (row if isinstance(row, str) else json.dumps(row)).encode()
