"""``tideline serve``: its options, its probes, and its end."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog

from daemon.endpoint.settings import parse_listen
from daemon.service.command_line import call as tideline
from state.errors import ConfigError
from tests.builders.daemon.tideline_process import COMMAND, ended, running
from tests.builders.metastore.raw_metastore import RawMetastore, call, clients, closed_port, reply


@pytest.fixture(autouse=True)
def _logs_of_others() -> Iterator[None]:
    """The command sends the logs of this process to a stream that ends with the test."""
    yield
    structlog.reset_defaults()


@pytest.mark.parametrize(
    ("text", "expected"),
    [("10.0.0.1:9083", ("10.0.0.1", 9083)), ("[::1]:0", ("::1", 0)), ("host:1", ("host", 1))],
)
def test_an_address_has_a_host_and_a_port(text: str, expected: tuple[str, int]) -> None:
    assert parse_listen(text, "--listen") == expected


@pytest.mark.parametrize("text", ["9083", ":9083", "host:", "host:port", "host:70000"])
def test_other_addresses_are_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="--listen must have the form HOST:PORT"):
        parse_listen(text, "--listen")


def test_a_wrong_metastore_address_ends_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert tideline(["serve", "--metastore", "http://metastore:9083"]) == 1
    assert "thrift://host:port" in capsys.readouterr().err


@pytest.mark.parametrize("listen", ["127.0.0.1:9083", "localhost:9083", "0.0.0.0:9083"])
def test_an_endpoint_in_front_of_itself_is_refused(listen: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert tideline(["serve", "--metastore", "thrift://localhost:9083", "--listen", listen]) == 1
    assert "the metastore's address is the endpoint's own" in capsys.readouterr().err


def test_the_command_serves_until_sigterm_and_shows_metrics() -> None:
    with RawMetastore() as metastore:
        metastore.will("a", reply("a"))
        options = ["--metastore", f"thrift://127.0.0.1:{metastore.port}", "--listen", "127.0.0.1:0"]
        with running([*COMMAND, "serve", *options, "--http", "127.0.0.1:0"]) as process:
            assert process.stdout is not None
            started = json.loads(process.stdout.readline())
            with clients(int(started["listen"].rpartition(":")[2])) as connect:
                client = connect()
                client.send(call("a"))
                assert client.receive(len(reply("a"))) == reply("a")
                with urllib.request.urlopen(f"http://{started['http']}/metrics") as answer:
                    assert b"tideline_endpoint_connections 1.0" in answer.read()
                with urllib.request.urlopen(f"http://{started['http']}/livez") as answer:
                    assert json.load(answer)["ok"]
                assert '"calls_cut_off":0' in ended(process)
                assert client.receive_to_end() == b""


def test_metrics_require_a_token_if_a_file_with_tokens_is_given_and_probes_do_not(tmp_path: Path) -> None:
    tokens = tmp_path / "tokens"
    tokens.write_text(f"{'t' * 32}\n")
    with RawMetastore() as metastore:
        options = ["--metastore", f"thrift://127.0.0.1:{metastore.port}", "--listen", "127.0.0.1:0"]
        http = ["--http", "127.0.0.1:0", "--http-token-file", str(tokens)]
        with running([*COMMAND, "serve", *options, *http]) as process:
            assert process.stdout is not None
            address = json.loads(process.stdout.readline())["http"]
            with pytest.raises(urllib.error.HTTPError) as refused:
                urllib.request.urlopen(f"http://{address}/metrics")
            assert refused.value.code == 401
            refused.value.close()
            headers = {"Authorization": f"Bearer {'t' * 32}"}
            request = urllib.request.Request(f"http://{address}/metrics", headers=headers)
            with urllib.request.urlopen(request) as answer:  # noqa: S310 - the address is above
                assert b'refused_total{listener="probes",reason="unauthenticated"} 1.0' in answer.read()
            with urllib.request.urlopen(f"http://{address}/livez") as answer:
                assert json.load(answer)["ok"]


def test_a_file_with_tokens_alone_is_a_usage_error() -> None:
    assert tideline(["serve", "--metastore", "thrift://m:9083", "--http-token-file", "tokens"]) == 2


def test_the_command_warns_at_the_start_if_the_metastore_cannot_be_reached() -> None:
    options = ["--metastore", f"thrift://127.0.0.1:{closed_port()}", "--listen", "127.0.0.1:0"]
    with running([*COMMAND, "serve", *options]) as process:
        assert process.stdout is not None
        assert json.loads(process.stdout.readline())["event"] == "serving"
        warning = json.loads(process.stdout.readline())
        assert warning["level"] == "warning"
        assert warning["event"].startswith("the metastore cannot be reached")
        assert "Connection refused" in warning["reasons"][0]


def test_files_for_tls_are_checked_at_the_start(capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--metastore", "thrift://metastore:9083", "--tls-certificate", "/no/such/file"]
    assert tideline(["serve", *options]) == 1
    assert "the files for TLS cannot be used" in capsys.readouterr().err
