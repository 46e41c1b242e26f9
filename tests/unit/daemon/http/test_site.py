"""Who may ask: tokens, certificates, names of the host, and the address files. Over real sockets."""

from __future__ import annotations

import base64
import json
import stat
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from daemon.config.settings.process import HttpConfig
from daemon.http.access import Access
from daemon.http.endpoints import JSON, Made, made_response, may_operate
from daemon.http.metrics import HttpMetrics
from daemon.http.site import Site
from daemon.http.tokens import Role
from daemon.http.transport.tls import ServerTls
from daemon.status.address import DaemonAddress, running_daemon
from daemon.status.client import fetch
from state.errors import ConfigError, Forbidden, Transient
from tests.builders.certificates import Certificate, a_certificate
from tests.builders.daemon.raw_clients import connect, connected, rest_of


VIEWER, OPERATOR = "v" * 32, "o" * 32


async def role(request: Request) -> Response:
    """Answer with what the client may do."""

    def make() -> Made:
        client = request.state.client
        return Made(json.dumps([client.name, may_operate(request)]).encode(), JSON)

    return await made_response(request, make)


class RunningSite:
    """A site with one route, and how to ask it."""

    def __init__(self, site: Site, registry: CollectorRegistry, scheme: str = "http") -> None:
        self.port = int(site.address.rpartition(":")[2])
        self.url = f"{scheme}://127.0.0.1:{self.port}"
        self._registry = registry

    def ask(
        self, *headers: str, method: str = "GET", host: str = "localhost", path: str = "/role"
    ) -> tuple[int, Any]:
        """Send a request to the route, and return the status and what it says."""
        head = [f"{method} {path} HTTP/1.1", f"host: {host}", "connection: close", *headers, "", ""]
        with closing(connect(self.port)) as client:
            client.sendall("\r\n".join(head).encode())
            answer = rest_of(client)
        status, _, body = answer.partition(b"\r\n\r\n")
        return int(status.split()[1]), json.loads(body) if body.startswith((b"{", b"[")) else body

    def refusals(self) -> str:
        """Return the metrics that count refusals."""
        return "\n".join(
            line for line in generate_latest(self._registry).decode().splitlines() if "refused" in line
        )


@contextmanager
def site(tmp_path: Path, **settings: Any) -> Iterator[RunningSite]:
    registry = CollectorRegistry(auto_describe=False)
    config = HttpConfig.model_validate({"port": 0, **settings})
    routes = [Route("/role", role, methods=["GET", "POST"])]
    made = Site(config, routes, HttpMetrics(registry).refused_by("site"))
    with closing(made):
        made.start(tmp_path, ("127.0.0.1", 8471))
        yield RunningSite(made, registry, "https" if config.tls else "http")


@pytest.fixture
def tokens(tmp_path: Path) -> dict[str, Any]:
    for name, token in (("viewer", VIEWER), ("operator", OPERATOR)):
        (tmp_path / name).write_text(f"{token}\n")
    return {
        "grafana": {"file": tmp_path / "viewer"},
        "admin": {"file": tmp_path / "operator", "role": "operate"},
    }


def bearer(token: str) -> str:
    return f"authorization: Bearer {token}"


def basic(token: str) -> str:
    return "authorization: Basic " + base64.b64encode(f"anyone:{token}".encode()).decode()


def test_without_tokens_everyone_on_this_machine_may_view(tmp_path: Path) -> None:
    with site(tmp_path) as running:
        assert running.ask() == (200, ["anonymous", False])


def test_paths_and_methods_that_no_route_has_are_problems(tmp_path: Path) -> None:
    with site(tmp_path) as running:
        code, problem = running.ask(path="/none%1b")
        assert (code, problem["status"], problem["code"]) == (404, 404, "not-found")
        code, problem = running.ask(method="PUT")
        assert (code, problem["status"], problem["context"]["method"]) == (405, 405, "PUT")


def test_a_token_gives_its_role(tmp_path: Path, tokens: dict[str, Any]) -> None:
    with site(tmp_path, tokens=tokens) as running:
        assert running.ask(bearer(VIEWER)) == (200, ["grafana", False])
        assert running.ask(bearer(OPERATOR)) == (200, ["admin", True])
        assert running.ask(basic(OPERATOR)) == (200, ["admin", True])


@pytest.mark.parametrize(
    "header",
    [
        "",
        bearer(""),
        bearer("x" * 32),
        bearer(VIEWER + "x"),
        basic("x"),
        "authorization: Basic %%%",
        f"authorization: {VIEWER}",
        f"authorization: Digest {VIEWER}",
    ],
)
def test_a_request_without_a_known_token_is_refused_and_counted(
    tmp_path: Path, tokens: dict[str, Any], header: str
) -> None:
    with site(tmp_path, tokens=tokens) as running:
        code, problem = running.ask(*filter(None, [header]))
        assert (code, problem["code"]) == (401, "unauthenticated")
        assert VIEWER not in str(problem)
        counted = 'tideline_http_refused_total{listener="site",reason="unauthenticated"} 1.0'
        assert counted in running.refusals()


def test_a_wrong_token_is_refused_even_where_none_is_needed(tmp_path: Path) -> None:
    with site(tmp_path) as running:
        assert running.ask(bearer("x" * 32))[0] == 401


def test_the_login_of_a_browser_changes_nothing(tmp_path: Path, tokens: dict[str, Any]) -> None:
    with site(tmp_path, tokens=tokens) as running:
        assert running.ask(basic(OPERATOR), method="POST")[0] == 401
        assert running.ask(bearer(OPERATOR), method="POST") == (200, ["admin", True])


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        (("x-tideline-site: 1", "origin: http://localhost", "sec-fetch-site: same-origin"), 200),
        (("x-tideline-site: 1", "origin: http://localhost"), 200),
        (("origin: http://localhost", "sec-fetch-site: same-origin"), 401),
        (("x-tideline-site: 1", "sec-fetch-site: same-origin"), 401),
        (("x-tideline-site: 1", "origin: http://evil.example"), 401),
        (("x-tideline-site: 1", "origin: null"), 401),
        (("x-tideline-site: 1", "origin: http://localhost", "sec-fetch-site: same-site"), 401),
    ],
)
def test_a_login_changes_something_only_from_a_page_of_the_site(
    tmp_path: Path, tokens: dict[str, Any], headers: tuple[str, ...], status: int
) -> None:
    with site(tmp_path, tokens=tokens) as running:
        assert running.ask(basic(OPERATOR), *headers, method="POST")[0] == status


@pytest.mark.parametrize(
    ("headers", "role"),
    [
        ({}, Role.OPERATE),
        ({b"origin": b"https://evil.example"}, None),
        ({b"origin": b"null", b"sec-fetch-site": b"cross-site"}, None),
        ({b"sec-fetch-site": b"same-site", b"x-tideline-site": b"1"}, None),
        ({b"origin": b"https://localhost", b"x-tideline-site": b"1"}, Role.OPERATE),
    ],
)
def test_a_certificate_in_a_browser_changes_something_only_from_a_page_of_the_site(
    headers: dict[bytes, bytes], role: Role | None
) -> None:
    access = Access(operators=frozenset({"ada"}))
    certificate = {"subject": ((("commonName", "ada"),),)}
    scope: dict[str, Any] = {
        "method": "POST",
        "headers": [(b"host", b"localhost"), *headers.items()],
        "state": {"certificate": certificate},
    }
    if role is None:
        with pytest.raises(Forbidden):
            access.client_of(scope)
    else:
        assert access.client_of(scope).role is role
    assert access.client_of(scope | {"method": "GET"}).role is Role.OPERATE


def test_anonymous_clients_may_view_beside_tokens_if_that_is_set(
    tmp_path: Path, tokens: dict[str, Any]
) -> None:
    with site(tmp_path, tokens=tokens, allow_anonymous=True) as running:
        assert running.ask() == (200, ["anonymous", False])
        assert running.ask(bearer(OPERATOR)) == (200, ["admin", True])


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8470", "127.0.0.1.evil.example", ""])
def test_a_request_in_the_name_of_another_host_is_refused(
    tmp_path: Path, tokens: dict[str, Any], host: str
) -> None:
    with site(tmp_path, tokens=tokens, allow_anonymous=True, names=["Tide.example"]) as running:
        code, problem = running.ask(host=host)
        assert (code, problem["code"]) == (403, "forbidden")
        assert running.ask(bearer(VIEWER), host=host)[0] == 200
        assert 'reason="forbidden"' in running.refusals()


@pytest.mark.parametrize(
    "host", ["localhost:1", "127.0.0.1:1", "[::1]:1", "[::1]", "10.0.0.1", "TIDE.example:1"]
)
def test_addresses_and_the_names_of_this_machine_are_accepted(tmp_path: Path, host: str) -> None:
    with site(tmp_path, names=["tide.example"]) as running:
        assert running.ask(host=host)[0] == 200


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.1", "example.org"])  # noqa: S104 - not bound
def test_other_addresses_than_loopback_need_clients_that_are_known_or_a_statement(
    host: str, tokens: dict[str, Any]
) -> None:
    with pytest.raises(ValueError, match="allow_anonymous"):
        HttpConfig.model_validate({"host": host})
    HttpConfig.model_validate({"host": host, "allow_anonymous": True})
    HttpConfig.model_validate({"host": host, "tokens": tokens})


def test_commands_on_this_machine_have_a_token_of_their_own(tmp_path: Path, tokens: dict[str, Any]) -> None:
    with site(tmp_path, tokens=tokens):
        address = running_daemon(tmp_path)
        assert address is not None
        assert address.token is not None
        assert fetch(address, "/role") == (200, b'["this-machine", true]')
        assert stat.S_IMODE((tmp_path / "http.token").stat().st_mode) == 0o600
        assert address.token not in (tmp_path / "http.json").read_text()
    assert not (tmp_path / "http.json").exists()
    assert not (tmp_path / "http.token").exists()


def test_a_port_in_use_is_a_configuration_error(tmp_path: Path) -> None:
    with site(tmp_path) as running:
        with pytest.raises(ConfigError) as caught, site(tmp_path, port=running.port):
            pass
        assert caught.value.context["key"] == "http.port"


class TestTls:
    @pytest.fixture
    def own(self, tmp_path: Path) -> Certificate:
        return a_certificate(tmp_path, "daemon")

    @pytest.fixture
    def client(self, tmp_path: Path) -> Certificate:
        return a_certificate(tmp_path, "client")

    @staticmethod
    def settings(own: Certificate, **others: Any) -> dict[str, Any]:
        return {"tls": {"certificate": own.certificate, "key": own.key, **others}}

    def test_a_client_trusts_the_authority_that_it_is_given(self, tmp_path: Path, own: Certificate) -> None:
        with site(tmp_path, **self.settings(own)) as running:
            trusting = DaemonAddress(running.url, ca_file=str(own.certificate))
            assert fetch(trusting, "/role")[0] == 200
            with pytest.raises(Transient, match="does not answer"):
                fetch(DaemonAddress(running.url), "/role")

    def test_commands_on_this_machine_recognise_the_daemon(self, tmp_path: Path, own: Certificate) -> None:
        with site(tmp_path, **self.settings(own)) as running:
            address = running_daemon(tmp_path)
            assert address is not None
            assert fetch(address, "/role")[0] == 200
            other = DaemonAddress(running.url, fingerprint="0" * 64)
            with pytest.raises(Transient, match="another server"):
                fetch(other, "/role")

    def test_a_certificate_gives_a_role_and_others_need_a_token(
        self, tmp_path: Path, own: Certificate, client: Certificate, tokens: dict[str, Any]
    ) -> None:
        pem = tmp_path / "client-with-key.pem"
        pem.write_text(client.certificate.read_text() + client.key.read_text())
        ca = {"client_ca": client.certificate}
        shown = {"ca_file": str(own.certificate), "cert_file": str(pem)}
        with site(tmp_path, **self.settings(own, **ca)) as running:
            assert fetch(DaemonAddress(running.url, **shown), "/role") == (200, b'["client", false]')
            assert fetch(DaemonAddress(running.url, ca_file=shown["ca_file"]), "/role")[0] == 401
        with site(tmp_path, **self.settings(own, **ca, operators=["client"]), tokens=tokens) as running:
            assert fetch(DaemonAddress(running.url, **shown), "/role") == (200, b'["client", true]')
            with_token = DaemonAddress(running.url, VIEWER, shown["ca_file"])
            assert fetch(with_token, "/role") == (200, b'["grafana", false]')

    def test_a_certificate_of_a_strange_authority_is_refused(
        self, tmp_path: Path, own: Certificate, client: Certificate
    ) -> None:
        pem = tmp_path / "strange.pem"
        strange = a_certificate(tmp_path, "strange")
        pem.write_text(strange.certificate.read_text() + strange.key.read_text())
        with site(tmp_path, **self.settings(own, client_ca=client.certificate)) as running:
            address = DaemonAddress(running.url, ca_file=str(own.certificate), cert_file=str(pem))
            with pytest.raises(Transient):
                fetch(address, "/role")

    def test_silent_clients_before_the_handshake_keep_nobody_out(
        self, tmp_path: Path, own: Certificate
    ) -> None:
        limits = {"connections_max": 8, "connections_per_address_max": 8}
        with site(tmp_path, **self.settings(own), **limits) as running, connected(running.port, 100):
            trusting = DaemonAddress(running.url, ca_file=str(own.certificate))
            assert [fetch(trusting, "/role")[0] for _ in range(3)] == [200] * 3

    def test_a_renewed_certificate_is_used_without_a_restart(
        self, own: Certificate, client: Certificate
    ) -> None:
        tls = ServerTls(own.certificate, own.key)
        before = tls.fingerprint()
        own.key.write_bytes(b"nonsense")
        tls.refresh()  # leaves the old one
        own.certificate.write_bytes(client.certificate.read_bytes())
        own.key.write_bytes(client.key.read_bytes())
        tls.refresh()
        assert tls.fingerprint() != before

    def test_files_that_do_not_fit_are_a_configuration_error(
        self, tmp_path: Path, own: Certificate, client: Certificate
    ) -> None:
        wrong = {"certificate": own.certificate, "key": client.key}
        with pytest.raises(ConfigError) as caught, site(tmp_path, tls=wrong):
            pass
        assert caught.value.context["key"] == "http.tls"
