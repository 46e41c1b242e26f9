"""A daemon with all capabilities between two Kerberized clusters: relay, replica, index and endpoint of one
database."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from daemon.endpoint.configured.status import EndpointStatus
from daemon.endpoint.protocol.streams import Transport
from daemon.endpoint.protocol.wire import Message
from daemon.endpoint.settings import EndpointSettings
from daemon.endpoint.upstream import Upstream
from daemon.endpoint.verification.verifier import is_same_answer
from dev.stack.endpoints import Endpoints
from dev.stack.hive.kerberized import HOST, PRINCIPAL, KerberizedEngine
from dev.stack.hive.sql_session import Session
from dev.stack.servers.kerberos import REALM
from handlers.metastore.addresses import Address, KerberosLogin
from tests.builders.components.availability import start_or_skip
from tests.builders.daemon.killed_stack import wait_until
from tests.builders.daemon.running_daemon import RunningDaemon, configured


USER: Final = f"tideline@{REALM}"


def login_of(keytab: Path, client: str = USER) -> KerberosLogin:
    """Return a login at the metastores of a ``KerberizedStack``."""
    return KerberosLogin(PRINCIPAL, client, keytab)


@dataclass(frozen=True)
class SecureDaemon:
    """A daemon that logs in with ``keytab``, and its endpoint."""

    daemon: RunningDaemon

    @classmethod
    def of(
        cls, directory: Path, endpoints: Endpoints, db: str, keytab: Path, client: str = USER
    ) -> SecureDaemon:
        """Configure a daemon; nothing runs yet."""
        daemon = configured(
            directory,
            endpoints,
            topic=db,
            database=db,
            policy={"bootstrap": "auto"},
            sections={
                "catalog": {"lake": {"lens": False, "partitions": {"tables": [f"{db}.*"]}}},
                "serve": {"lake": {"listen": f"{HOST}:0", "wait_ms": 2000, "verify_ratio": 1}},
            },
        )
        auth = {
            "mechanism": "kerberos",
            "principal": PRINCIPAL,
            "client_principal": client,
            "keytab": str(keytab),
        }
        values: dict[str, Any] = yaml.safe_load(daemon.config.read_text())
        values["sources"]["lake"]["auth"] = values["targets"]["dr"]["auth"] = auth
        daemon.config.write_text(yaml.safe_dump(values))
        return cls(daemon)

    def endpoint_when(self, condition: Callable[[EndpointStatus], object]) -> EndpointStatus:
        """Return the first status of the running endpoint for which ``condition`` holds."""

        def find(sections: Any) -> EndpointStatus | None:
            found: tuple[EndpointStatus, ...] = sections["endpoints"]
            return found[0] if found and found[0].listen and condition(found[0]) else None

        endpoint = find(self.daemon.status_when(lambda status: find(status.sections)).sections)
        assert endpoint is not None
        return endpoint

    @property
    def address(self) -> Address:
        """Where the endpoint listens."""
        return Address(HOST, int((self.endpoint_when(lambda _: True).listen or "").rpartition(":")[2]))

    def settle(self, event_id: int) -> None:
        """Wait until replica and index have applied ``event_id`` and every table is loaded; require that no
        table is quarantined."""
        status = self.daemon.status_when(
            lambda now: all(
                view.state == "following" and (view.event_id or 0) >= event_id for view in now.projections
            )
        )
        assert [view.failures for view in status.projections] == [()] * len(status.projections)
        wait_until(lambda: not self.daemon.status_when(lambda _: True).sections["loads"])


def connect(address: Address, login: KerberosLogin | None) -> Upstream:
    """Open a connection for requests as bytes, with a login or without."""
    if login is None:
        return Upstream(EndpointSettings(metastores=(address,)), Transport.FRAMED)
    return Upstream.of_endpoint(EndpointSettings(metastores=(address,), login=login))


def require_equal_answers(
    direct: Address, through: Address, login: KerberosLogin, requests: Iterable[Message]
) -> None:
    """Send each request to a metastore and to its endpoint; fail if an answer differs."""
    ours, theirs = connect(through, login), connect(direct, login)
    with closing(ours.peer), closing(theirs.peer):
        for request in requests:
            expected, found = theirs.exchange(request), ours.exchange(request)
            assert found.header == expected.header
            assert is_same_answer(found.body, expected.body, request.name), request.name


@contextmanager
def running_engine(engine: KerberizedEngine) -> Iterator[Session]:
    """Run a further SQL engine during the block, beside that of its cluster."""
    engine.name = f"engine-{engine.port}"
    with start_or_skip("SQL engine"):
        engine.start()
    try:
        with Session.connect(engine.address) as sql:
            yield sql
    finally:
        engine.stop()
