"""The settings of a metastore that change its answers; read once for each connection.

A metastore can filter answers by the client's user, refuse large answers, or read filters in another way. Its
answers then depend on more than the partitions, and the endpoint forwards every call. The settings of a
server do not change while it runs, and a connection leads to one server. Only the client's own
``setMetaConf`` may change them for its connection.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from daemon.endpoint.protocol.wire import Header, Message, read_fields, text_value, write_struct
from handlers.metastore.calls import V4_0, parse_hive_version
from state.errors import BadInput, Unsupported
from state.partitions.filters.dialect import HIVE_2, HIVE_4


if TYPE_CHECKING:
    from daemon.endpoint.responders import Metastore
    from handlers.metastore.calls import HiveVersion
    from state.partitions.filters.dialect import Dialect


CALL: Final = 1
_UNSET: Final = ""
_NO_FILTER_HOOK: Final = "org.apache.hadoop.hive.metastore.DefaultMetaStoreFilterHookImpl"
_OBJECT_STORE: Final = "org.apache.hadoop.hive.metastore.ObjectStore"
_REQUIRED: Final = {
    "hive.metastore.pre.event.listeners": {""},
    "hive.metastore.limit.partition.request": {"", "-1"},
    "hive.metastore.authorization.storage.checks": {"", "false"},
    "hive.metastore.try.direct.sql": {"", "true"},
    "hive.metastore.rawstore.impl": {"", _OBJECT_STORE},
}
"""Settings with the values for which answers depend only on the partitions; every version has them."""
_FILTER_HOOK: Final = "hive.metastore.filter.hook"
_FILTER_ENABLED: Final = "metastore.server.filter.enabled"
_CATALOG: Final = "metastore.catalog.default"


@dataclass(frozen=True, slots=True)
class ServerRules:
    """The rules of one server; ``dialect`` is None if its answers depend on more than the partitions."""

    dialect: Dialect | None
    is_hive_4: bool = False
    has_catalogs: bool = True
    """Whether the name of a database may contain its catalog; Hive 2 mistakes such a name for that of a
    database.
    """


UNANSWERABLE: Final = ServerRules(None)


def read_rules(metastore: Metastore) -> ServerRules:
    """Query the settings of a server; raise the errors of ``Metastore.exchange``."""
    version = ask_version(metastore)
    if version is None:
        return UNANSWERABLE
    is_hive_4 = version >= V4_0
    if not all(_setting(metastore, name) in values for name, values in _REQUIRED.items()):
        return UNANSWERABLE
    if _filters(metastore, is_hive_4=is_hive_4):
        return UNANSWERABLE
    if is_hive_4:
        return ServerRules(HIVE_4, is_hive_4=True)
    return ServerRules(HIVE_2, has_catalogs=_has_call(metastore, "get_catalogs"))


def ask_version(metastore: Metastore) -> HiveVersion | None:
    """Return the Hive version of a server; None if unknown. A server of 3.1 reports 2.3."""
    try:
        return parse_hive_version(_ask(metastore, "getVersion"))
    except (BadInput, Unsupported):
        return None


def _filters(metastore: Metastore, *, is_hive_4: bool) -> bool:
    """Whether the server filters answers by user, or has another default catalog. Servers before Hive 4 do
    not filter.
    """
    if not is_hive_4:
        return False
    if _setting(metastore, _CATALOG) not in {"", "hive"}:
        return True
    return (
        _setting(metastore, _FILTER_HOOK) not in {"", _NO_FILTER_HOOK}
        and _setting(metastore, _FILTER_ENABLED) != "false"
    )


def _has_call(metastore: Metastore, call: str) -> bool:
    """Whether a server has this call, which takes no arguments. This distinguishes Hive 2.3 from 3.1, which
    report the same version.
    """
    return 0 in read_fields(metastore.exchange(Message(Header(call, CALL, 0), write_struct([]))).body)


def _setting(metastore: Metastore, name: str) -> str | None:
    """Return a setting; "" if it is not set, None if the server does not return it."""
    try:
        return _ask(metastore, "get_config_value", name, _UNSET).strip()
    except BadInput:
        return None


def _ask(metastore: Metastore, call: str, *texts: str) -> str:
    """Make a call that returns a text; raise BadInput for any other answer."""
    arguments = write_struct((number, text_value(text)) for number, text in enumerate(texts, 1))
    answer = read_fields(metastore.exchange(Message(Header(call, CALL, 0), arguments)).body)
    if 0 not in answer:
        raise BadInput("the metastore did not return a setting", call=call, arguments=texts)
    return answer[0].to_text()
