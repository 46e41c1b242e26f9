"""Secure HDFS: Kerberos with a keytab and with a ticket, encrypted connections, and a client without
credentials."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from daemon.sources.commands import FileCheck
from dev.stack.process.java_runtime import find_java_with
from dev.stack.servers.hdfs import Hdfs
from dev.stack.servers.kerberos import REALM, Kdc
from handlers.files.paths import parse_location
from handlers.files.systems.schemes import open_file_systems
from state.errors import FilesUnavailable
from tests.builders.components.availability import start_or_skip
from tests.builders.components.page_runner import DOCS, PageRunner, cut_section


CLIENT: Final = {
    "hadoop.security.authentication": "kerberos",
    "hadoop.rpc.protection": "privacy",
    "dfs.data.transfer.protection": "privacy",
}
USER: Final = f"tideline@{REALM}"
JAVA_NEWEST: Final = 23  # Hadoop 3.3 uses a part of the security manager that Java 24 does not have


@dataclass(frozen=True)
class Secure:
    """The file system, its KDC, and the keytab of ``USER``."""

    hdfs: Hdfs
    kdc: Kdc
    keytab: Path

    def check(self, **options: str) -> FileCheck:
        """Return a check of the root directory with the options of a client."""
        root = parse_location(f"{self.hdfs.uri}/")
        given: Mapping[str, object] = CLIENT | options
        return FileCheck(open_file_systems({"hdfs": given}).of(root), root)


@pytest.fixture(scope="module")
def secure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secure]:
    with start_or_skip("Kerberos"):
        java = find_java_with("jdk.security.jgss", JAVA_NEWEST)
        kdc = Kdc(tmp_path_factory.mktemp("kdc"))
        kdc.__enter__()
    keytab = kdc.export("nn/localhost", "dn/localhost", "HTTP/localhost")
    hdfs = Hdfs(tmp_path_factory.mktemp("secure"), build_settings(keytab))
    for each in (hdfs.name_node, *hdfs.data_nodes):
        each.java = java
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("JAVA_TOOL_OPTIONS", f"-Djava.security.krb5.conf={kdc.config}")
        environment.setenv("KRB5_CONFIG", str(kdc.config))
        environment.setenv("KRB5CCNAME", str(kdc.directory / "none"))
        with hdfs:
            yield Secure(hdfs, kdc, kdc.export("tideline"))
    kdc.__exit__(None, None, None)


def build_settings(keytab: Path) -> dict[str, str]:
    principals = {
        "dfs.namenode.kerberos.principal": "nn",
        "dfs.datanode.kerberos.principal": "dn",
        "dfs.web.authentication.kerberos.principal": "HTTP",
        "dfs.namenode.kerberos.internal.spnego.principal": "HTTP",
    }
    keytabs = (
        "dfs.namenode.keytab.file",
        "dfs.datanode.keytab.file",
        "dfs.web.authentication.kerberos.keytab",
    )
    return {
        **CLIENT,
        **{name: f"{service}/localhost@{REALM}" for name, service in principals.items()},
        **dict.fromkeys(keytabs, str(keytab)),
        "hadoop.security.authorization": "true",
        "dfs.namenode.kerberos.principal.pattern": "*",
        "dfs.block.access.token.enable": "true",
        "ignore.secure.ports.for.testing": "true",
        "dfs.permissions.superusergroup": "tideline",
        "dfs.permissions.enabled": "false",
    }


def test_files_are_written_with_a_keytab_over_encrypted_connections(secure: Secure) -> None:
    checked = secure.check(kerberos_principal=USER, kerberos_keytab=str(secure.keytab))
    checked.read()
    checked.write()


def test_files_are_written_with_a_ticket(secure: Secure, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KRB5CCNAME", str(secure.kdc.log_in(USER, secure.keytab)))
    secure.check().write()


def test_without_a_ticket_the_environment_fails_and_no_file_counts_as_lost(secure: Secure) -> None:
    with pytest.raises(FilesUnavailable, match="denied access"):
        secure.check().read()


def test_the_settings_of_the_guide_write_files(secure: Secure, tmp_path: Path) -> None:
    encrypted = "".join(f"\n      {name}: {value}" for name, value in CLIENT.items())
    addresses = {
        "hdfs://source/warehouse": f"{secure.hdfs.uri}/",
        "hdfs://target/warehouse": f"{secure.hdfs.uri}/",
        "\n      hadoop.security.authentication: kerberos": encrypted,
        "EXAMPLE.COM": REALM,
        "/etc/security/tideline.keytab": str(secure.keytab),
    }
    page = cut_section((DOCS / "guides/kerberos.md").read_text(), "HDFS")
    with PageRunner(tmp_path, {}, addresses) as runner:
        runner.run(page)
