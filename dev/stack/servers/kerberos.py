"""A Kerberos realm with its own KDC, for tests of secure HDFS and secured metastores.

The programs come from system packages (Debian: krb5-kdc, krb5-admin-server, krb5-user). ``KRB5_ROOT`` names a
directory with unpacked packages, which needs no root. ::

    with Kdc(directory) as kdc:
        keytab = kdc.export("nn/localhost", "tideline")
"""

from __future__ import annotations

import os
import secrets
import shutil
import socket
import subprocess
from pathlib import Path
from typing import Final, Self

from dev.stack.errors import ComponentFailed, Missing
from dev.stack.process.component import Component
from dev.stack.process.owner_watch import OwnerWatch
from dev.stack.process.ports import free_port


REALM: Final = "TEST.LOCAL"
HOST: Final = "127.0.0.1"
TIMEOUT_S: Final = 30.0
PLACES: Final = ("usr/sbin", "usr/bin")


class Kdc(Component):
    """The KDC of ``REALM``; a context manager that also stops when the owning process ends."""

    def __init__(self, directory: Path) -> None:
        super().__init__("kdc", directory)
        self.port = free_port()
        self.clock_skew_s: int | None = None
        """Seconds by which clients' clocks may differ from the KDC's, effective from its next start; with -1
        every clock differs too much.
        """
        self._root = Path(os.environ.get("KRB5_ROOT", "/"))
        self._owner_watch: OwnerWatch | None = None
        self._keytabs: dict[str, Path] = {}

    @property
    def config(self) -> Path:
        """The file for ``KRB5_CONFIG``."""
        return self.directory / "krb5.conf"

    def prepare(self) -> None:
        """Write the configuration; create the database of principals at the first start."""
        self.write_config(self.config.name)
        self.write_config("server.conf", clock_skew_s=self.clock_skew_s)
        (self.directory / "kdc.conf").write_text(
            SERVER_CONFIG.format(realm=REALM, host=HOST, port=self.port, directory=self.directory)
        )
        if not (self.directory / "principals").exists():
            self._run("kdb5_util", "create", "-s", "-r", REALM, "-P", secrets.token_hex(16))

    def write_config(self, name: str, *, clock_skew_s: int | None = None) -> Path:
        """Write a configuration of the realm for a program, and return its path.

        Other clocks may differ by ``clock_skew_s``; with -1, every clock differs too much.
        """
        skew = "" if clock_skew_s is None else f" clockskew = {clock_skew_s}\n"
        config = self.directory / name
        config.write_text(
            CONFIG.format(realm=REALM, host=HOST, port=self.port, modules=self._modules(), skew=skew)
        )
        return config

    def _modules(self) -> str:
        """Return the section that names the directory of database modules, if it is not the system's."""
        found = next(self._root.glob("usr/lib/*/krb5/plugins/kdb"), None)
        return f"[dbmodules]\n db_module_dir = {found}\n" if found else ""

    def command(self) -> list[str]:
        """The server, in the foreground."""
        return [self._find("krb5kdc"), "-n", "-P", str(self.directory / "krb5kdc.pid")]

    def environment(self) -> dict[str, str]:
        """Return the variables that name the configuration and the libraries."""
        libraries = os.pathsep.join(map(str, self._root.glob("usr/lib/*-linux-gnu")))
        unpacked = {"LD_LIBRARY_PATH": libraries} if self._root != Path("/") else {}
        return {
            "KRB5_CONFIG": str(self.directory / "server.conf"),
            "KRB5_KDC_PROFILE": str(self.directory / "kdc.conf"),
            **unpacked,
        }

    def check_ready(self) -> None:
        """Check that it accepts connections."""
        socket.create_connection((HOST, self.port), timeout=1).close()

    def keytab_of(self, principal: str) -> Path:
        """Return the keytab of a principal that several programs share, created by the first call."""
        if principal not in self._keytabs:
            self._keytabs[principal] = self.export(principal)
        return self._keytabs[principal]

    def export(self, *principals: str) -> Path:
        """Create principals and return a keytab with all of them. Each gets a new key, so its earlier keytabs
        become invalid.
        """
        keytab = self.directory / f"{secrets.token_hex(4)}.keytab"
        for principal in principals:
            self._run("kadmin.local", "-r", REALM, "-q", f"addprinc -randkey {principal}")
            self._run("kadmin.local", "-r", REALM, "-q", f"ktadd -k {keytab} {principal}")
        return keytab

    def log_in(self, principal: str, keytab: Path, *options: str) -> Path:
        """Return a cache with a ticket of ``principal``; ``options`` go to ``kinit``."""
        cache = self.directory / f"{secrets.token_hex(4)}.cache"
        self._run("kinit", "-c", str(cache), "-k", "-t", str(keytab), *options, principal)
        return cache

    def modify(self, principal: str, *options: str) -> None:
        """Change a principal; ``options`` go to ``modprinc``."""
        self._run("kadmin.local", "-r", REALM, "modprinc", *options, principal)

    def count_logins(self, principal: str) -> int:
        """Return how many tickets were issued to a principal for a password or key."""
        lines = (self.directory / "requests.log").read_text().splitlines()
        return len(
            [line for line in lines if " AS_REQ " in line and f" {principal}@" in line and "ISSUE" in line]
        )

    def is_valid(self, cache: Path) -> bool:
        """Whether a cache has a ticket that has not expired."""
        try:
            self._run("klist", "-s", "-c", str(cache))
        except ComponentFailed:
            return False
        return True

    def _find(self, name: str) -> str:
        places = os.pathsep.join(str(self._root / place) for place in PLACES)
        found = shutil.which(name, path=places)
        if found is None:
            raise Missing(f"{name} is not installed (Debian: krb5-kdc, krb5-admin-server, krb5-user)")
        return found

    def _run(self, name: str, *arguments: str) -> None:
        environment = os.environ | self.environment() | {"KRB5_CONFIG": str(self.config)}
        command = [self._find(name), *arguments]
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
        )
        if done.returncode != 0:
            raise ComponentFailed(f"{name} failed: {done.stdout}{done.stderr}")

    def __enter__(self) -> Self:
        self.directory.mkdir(parents=True, exist_ok=True)
        self._owner_watch = OwnerWatch(self.directory)
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        if self._owner_watch is not None:
            self._owner_watch.close()


CONFIG: Final = """\
[libdefaults]
 default_realm = {realm}
 dns_lookup_kdc = false
 dns_lookup_realm = false
 dns_canonicalize_hostname = false
 rdns = false
 udp_preference_limit = 1
{skew}[realms]
 {realm} = {{
  kdc = {host}:{port}
 }}
[domain_realm]
 localhost = {realm}
{modules}"""

SERVER_CONFIG: Final = """\
[kdcdefaults]
 kdc_listen = {host}:{port}
 kdc_tcp_listen = {host}:{port}
[realms]
 {realm} = {{
  database_name = {directory}/principals
  key_stash_file = {directory}/stash
  acl_file = {directory}/acl
  supported_enctypes = aes256-cts:normal
 }}
[logging]
 kdc = FILE:{directory}/requests.log
"""
