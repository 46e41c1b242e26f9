"""Rewrites the partition filters of one connection for a metastore of Hive 4.

It translates filters of old clients before the endpoint answers or forwards a call
(``rewriting.translate_filter``). It rewrites a filter before forwarding so that the metastore's database
loses no partition (``rewriting.compare_by_bytes``). Metastores of other versions receive every filter
unchanged.

The calls of a client show its version. A call that Hive 4 dropped comes from Hive 2 or 3; a call or a field
that Hive 3.1 lacks comes from Hive 4. Before such a call, for example if a client connects again and sends a
filter first, the form of the filter decides.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from thrift.Thrift import TType

from daemon.endpoint.answers.partition_calls import CALLS_OF_HIVE_4
from daemon.endpoint.answers.server_rules import ask_version
from daemon.endpoint.protocol.wire import Message, Value, read_fields, text_value, write_struct
from daemon.endpoint.successors import TRANSLATIONS
from handlers.metastore.calls import V4_0
from state.errors import BadInput
from state.partitions.filters.rewriting import ClientVersion, compare_by_bytes, translate_filter


if TYPE_CHECKING:
    from collections.abc import Callable

    from daemon.endpoint.metrics import EndpointMetrics
    from daemon.endpoint.responders import Metastore


GET_TABLE: Final = "get_table_req"
FIELDS_OF_HIVE_3: Final = frozenset({1, 2, 3, 4})
"""Fields of the request of ``GET_TABLE`` that Hive 3.1 declares; Hive 4 always sends another, its engine."""
_KEPT_MAX: Final = 1024
_KEPT_CHARS_MAX: Final = 4096
"""Limits of number and length of filters with a cached translation, because clients repeat filters."""


@dataclass(frozen=True, slots=True)
class _FilterCall:
    """The fields of a call with a filter."""

    filter: int
    limit: int | None
    is_request: bool = False
    """Whether the arguments are in one request struct."""


_CALLS: Final = {
    "get_partitions_by_filter": _FilterCall(3, 4),
    "get_part_specs_by_filter": _FilterCall(3, 4),
    "get_num_partitions_by_filter": _FilterCall(3, None),
    "get_partitions_by_filter_req": _FilterCall(4, 5, is_request=True),
}


class FilterTexts:
    """Rewrites the filters of one connection."""

    def __init__(self, metrics: EndpointMetrics) -> None:
        self._metrics = metrics
        self._client = ClientVersion.UNKNOWN
        self._is_hive_4: bool | None = None
        """Whether the metastore is Hive 4; None until it was queried."""

    def translate(self, request: Message, metastore: Metastore) -> Message:
        """Return the request with a filter that means for Hive 4 what the client means.

        Raises the errors of ``metastore``.
        """
        if self._client is ClientVersion.UNKNOWN:
            self._client = _recognize(request)
        return self._rewrite(request, metastore, lambda text, _: _translate(text, self._client))

    def order(self, request: Message, metastore: Metastore) -> Message:
        """Return the request to forward, with a filter that loses no partition.

        Raises the errors of ``metastore``.
        """
        return self._rewrite(request, metastore, _order)

    def _rewrite(self, request: Message, metastore: Metastore, change: Callable[[str, bool], str]) -> Message:
        call = _CALLS.get(request.name)
        if call is None:
            return request
        try:
            fields = _read(call, request)
            text = fields[call.filter].to_text() if call.filter in fields else ""
        except BadInput:
            return request  # the metastore reports it
        changed = change(text, _takes_all(call, fields))
        if changed == text or not self._understands_sql(metastore):
            return request
        self._metrics.filters_rewritten.labels(request.name).inc()
        body = write_struct({**fields, call.filter: text_value(changed)}.items())
        return Message(
            request.header, write_struct([(1, Value(TType.STRUCT, body))]) if call.is_request else body
        )

    def _understands_sql(self, metastore: Metastore) -> bool:
        if self._is_hive_4 is None:
            version = ask_version(metastore)
            self._is_hive_4 = version is not None and version >= V4_0
        return self._is_hive_4


def _recognize(request: Message) -> ClientVersion:
    if request.name in TRANSLATIONS:
        return ClientVersion.OLD
    if request.name in CALLS_OF_HIVE_4:
        return ClientVersion.NEW
    if request.name != GET_TABLE:
        return ClientVersion.UNKNOWN
    fields = read_fields(request.body).get(1)
    is_known = (
        fields is None or fields.kind != TType.STRUCT or read_fields(fields.data).keys() <= FIELDS_OF_HIVE_3
    )
    return ClientVersion.UNKNOWN if is_known else ClientVersion.NEW


def _read(call: _FilterCall, request: Message) -> dict[int, Value]:
    fields = read_fields(request.body)
    if not call.is_request:
        return fields
    if fields.keys() != {1} or fields[1].kind != TType.STRUCT:
        raise BadInput("the request is not one struct", call=request.name)
    return read_fields(fields[1].data)


def _takes_all(call: _FilterCall, fields: dict[int, Value]) -> bool:
    """Whether the client receives all partitions that match, so that it can check them itself."""
    if call.limit is None:
        return False
    limit = fields.get(call.limit)
    return limit is None or int.from_bytes(limit.data, signed=True) < 0


def _translate(text: str, client: ClientVersion) -> str:
    return (_translate_kept if len(text) <= _KEPT_CHARS_MAX else translate_filter)(text, client)


def _order(text: str, takes_all: bool) -> str:
    return (_order_kept if len(text) <= _KEPT_CHARS_MAX else compare_by_bytes)(text, may_widen=takes_all)


_translate_kept: Final = lru_cache(_KEPT_MAX)(translate_filter)
_order_kept: Final = lru_cache(_KEPT_MAX)(compare_by_bytes)
