"""Batches that a reader of a topic cannot decompress.

Compression covers a batch of records as a whole, and a writer may choose its content: a batch of 8 MiB can
have gigabytes of content. The library refuses a batch in zstd that is longer than ``READER_LIMITS`` permits,
at every read, so the reader would never pass it. It does not limit the other codecs, so a source's topic is
created with ``compression.type=zstd``: the broker then compresses all batches again that arrive in another
codec.

Such a batch counts as one record without content. The error does not contain the end of the batch, so
``find_end`` searches for it: a read at any offset within the batch returns the same batch.
"""

from __future__ import annotations

import time
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from state.errors import KafkaUnavailable


CONTENT_BYTES_MAX: Final = 64 * 1024 * 1024
READER_LIMITS: Final = {
    "fetch_max_bytes": 16 * 1024 * 1024,
    "receive_message_max_bytes": CONTENT_BYTES_MAX,
}
"""Settings of a consumer. The second one limits an answer of the broker, and the
content of a batch in zstd."""

# SLF001: the spelling of librdkafka's local codes
_AFTER_THE_BATCH: Final = frozenset(
    {KafkaError._PARTITION_EOF, KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE}  # noqa: SLF001
)


def is_unreadable_batch(error: KafkaError) -> bool:
    """Whether an error of the library reports a batch that it cannot decompress."""
    return bool(error.code() == KafkaError._BAD_COMPRESSION)  # noqa: SLF001 - as above


def find_end(consumer: Consumer, first: TopicPartition, timeout_s: float) -> int:
    """Return the offset after the unreadable batch that begins at ``first``, and leave ``consumer`` at that
    offset.

    ``consumer`` must report the ends of partitions; it reads no other partition afterwards. Raises
    KafkaException, and KafkaUnavailable after the time-out.
    """
    inside, beyond, stride = first.offset, first.offset + 1, 1
    while _is_within(consumer, first, beyond, timeout_s):
        inside, stride = beyond, stride * 2
        beyond = inside + stride
    while beyond - inside > 1:
        middle = (inside + beyond) // 2
        if _is_within(consumer, first, middle, timeout_s):
            inside = middle
        else:
            beyond = middle
    consumer.assign([TopicPartition(first.topic, first.partition, beyond)])
    return beyond


def _is_within(consumer: Consumer, first: TopicPartition, offset: int, timeout_s: float) -> bool:
    """Whether ``offset`` belongs to the batch that begins at ``first``."""
    consumer.assign([TopicPartition(first.topic, first.partition, offset)])
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        message: Any = consumer.poll(0.2)
        error = None if message is None else message.error()
        if message is None:
            continue
        if error is None or error.code() in _AFTER_THE_BATCH:
            return False
        if is_unreadable_batch(error):
            return bool(message.offset() == first.offset)
        if not error.retriable():
            raise KafkaException(error)
    raise KafkaUnavailable(
        "the end of an unreadable batch could not be found in time", topic=first.topic, offset=first.offset
    )
