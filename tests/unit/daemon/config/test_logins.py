"""Settings of logins: what each mechanism needs, that secrets stay secret, and that loading them makes
connections use them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from textwrap import dedent

import pytest

from daemon.process.redaction import redact
from daemon.service.configuration import config_reader, load_config
from handlers.metastore.addresses import KerberosLogin, PasswordLogin, login_at, use_logins
from state.errors import ConfigError


@pytest.fixture(autouse=True)
def no_logins(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("PASSWORD", "correct horse")
    yield
    use_logins({})


@pytest.fixture
def write(tmp_path: Path) -> Callable[[str, str], Path]:
    def write_file(source: str, target: str = "") -> Path:
        path = tmp_path / "tideline.yaml"
        path.write_text(
            dedent(f"""\
            sources:
              lake: {{metastore: [thrift://a:1, thrift://b:2], topic: t{source}}}
            targets:
              dr: {{metastore: thrift://c:3{target}}}
            kafka: {{bootstrap: "k:9092"}}
            """)
        )
        return path

    return write_file


KERBEROS = (
    "auth: {mechanism: kerberos, principal: hive/_HOST@R, client_principal: tideline@R, keytab: /k, "
    "protection: auth-int}"
)
PLAIN = "auth: {mechanism: plain, user: tideline, password: {env: PASSWORD}}"


def test_connections_use_the_logins_of_the_loaded_configuration(write: Callable[[str, str], Path]) -> None:
    config = load_config(write(f", {KERBEROS}", f", {PLAIN}"), {})
    kerberos = KerberosLogin("hive/_HOST@R", "tideline@R", Path("/k"), "auth-int")
    assert login_at("a", 1) == login_at("b", 2) == kerberos
    assert login_at("c", 3) == PasswordLogin("tideline", "correct horse")
    assert login_at("c", 1) is None
    assert "correct horse" in config.secrets()
    assert "correct horse" not in config.model_dump_json()


def test_a_password_in_a_file_is_read_again_for_each_login_and_masked(
    write: Callable[[str, str], Path], tmp_path: Path
) -> None:
    file = tmp_path / "password"
    file.write_text("correct horse\n")
    auth = f"auth: {{mechanism: plain, user: tideline, password: {{file: {file}}}}}"
    config = load_config(write(f", {KERBEROS}", f", {auth}"), {})
    shown = config.model_dump_json()
    assert f'"file {file}"' in shown
    assert "correct" not in shown
    login = login_at("c", 3)
    assert isinstance(login, PasswordLogin)
    assert login.file is not None
    assert login.file.path == file
    assert login.present_password() == "correct horse"
    file.write_text("battery staple\n")
    assert login.present_password() == "battery staple"
    assert "battery" not in redact("the server said: battery staple")
    assert "correct" not in redact("the server said: correct horse")
    file.unlink()
    assert login.present_password() == "correct horse", "that of the start"


@pytest.mark.parametrize(
    ("auth", "reason"),
    [
        ("auth: {mechanism: kerberos}", "has the mechanism kerberos but no principal"),
        ("auth: {mechanism: plain, user: u}", "has the mechanism plain but no password"),
        (
            "auth: {mechanism: plain, user: u, password: {env: PASSWORD}, keytab: /k}",
            "has settings that the mechanism plain does not use: keytab",
        ),
        (
            "auth: {mechanism: kerberos, principal: hive/_HOST@R, user: u}",
            "has settings that the mechanism kerberos does not use: user",
        ),
    ],
)
def test_a_mechanism_has_its_own_settings_and_no_others(
    write: Callable[[str, str], Path], auth: str, reason: str
) -> None:
    path = write(f", {auth}", "")
    path.write_text(path.read_text().replace("thrift://", "thrift+tls://"))
    (found,) = config_reader().read(path, {}).problems
    assert (found.key, found.reason) == ("sources.lake.auth", reason)


@pytest.mark.parametrize("principal", ["hive", "hive@R", "hive/host", "hive/ho st@R"])
def test_a_metastores_principal_has_a_host_and_a_realm(
    write: Callable[[str, str], Path], principal: str
) -> None:
    path = write(f", auth: {{mechanism: kerberos, principal: {principal}}}", "")
    found = next(
        each for each in config_reader().read(path, {}).problems if each.key == "sources.lake.auth.principal"
    )
    assert "hive/_HOST@EXAMPLE.COM" in found.reason


def test_clusters_with_one_metastore_cannot_log_in_differently(write: Callable[[str, str], Path]) -> None:
    path = write(f", {KERBEROS}", "")
    path.write_text(path.read_text().replace("thrift://c:3", "thrift://a:1"))
    (found,) = config_reader().read(path, {}).problems
    assert found.key == "targets.dr.auth"
    assert found.reason == "does not use the same login at a:1 as sources.lake"
    with pytest.raises(ConfigError, match="invalid"):
        load_config(path, {})
    path.write_text(path.read_text().replace("thrift://a:1}", f"thrift://a:1, {KERBEROS}}}"))
    assert config_reader().read(path, {}).problems == ()


def test_an_address_without_a_port_is_the_same_metastore_as_with_the_default_port(
    write: Callable[[str, str], Path],
) -> None:
    path = write(f", {KERBEROS}", "")
    path.write_text(
        path.read_text().replace("thrift://a:1", "thrift://a").replace("thrift://c:3", "thrift://A:9083")
    )
    (found,) = config_reader().read(path, {}).problems
    assert found.reason == "does not use the same login at a:9083 as sources.lake"


def test_a_password_without_tls_is_a_warning_with_which_the_daemon_runs(
    write: Callable[[str, str], Path],
) -> None:
    path = write("", f", {PLAIN}")
    (found,) = config_reader().read(path, {}).problems
    assert found.warning
    assert found.key == "targets.dr.auth.mechanism"
    assert found.reason == "sends the password unencrypted to thrift://c:3"
    assert load_config(path, {}).targets["dr"].auth is not None
    path.write_text(path.read_text().replace("thrift://c:3", "thrift+tls://c:3"))
    assert config_reader().read(path, {}).problems == ()


def test_an_error_is_reported_before_a_warning(write: Callable[[str, str], Path]) -> None:
    path = write(f", {PLAIN}", ", compactions_every_s: 0")
    with pytest.raises(ConfigError) as refused:
        load_config(path, {})
    assert refused.value.context["key"] == "targets.dr.compactions_every_s"
