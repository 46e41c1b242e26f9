"""The API server of Kubernetes and its store, etcd, in one directory, without scheduler, controllers or
kubelets.

It stores and validates objects, authenticates service accounts and authorizes them by roles. It runs no pods.
It serves the tests of flat tables whose executors are pods, and is not part of the default stack. ::

    with Kubernetes(directory) as cluster:
        cluster.url, cluster.authority, cluster.token  # address, certificate, and token of an administrator

Go builds both programs once per machine (ten minutes of one core), and the cache keeps them.
``locks/kubernetes`` is a Go module that pins them: its ``go.sum`` has the checksums of all dependencies.
"""

from __future__ import annotations

import secrets
import shutil
import ssl
import subprocess
import tempfile
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from dev.stack.downloads.go_compiler import check_go, run_go
from dev.stack.downloads.jars import LOCKS, cache_dir
from dev.stack.errors import ComponentFailed
from dev.stack.process.component import Component
from dev.stack.process.owner_watch import OwnerWatch
from dev.stack.process.ports import free_port
from dev.stack.process.started import Started


HOST: Final = "127.0.0.1"
VERSION: Final = "1.37.1"
GO_OLDEST: Final = (1, 26)
ETCD: Final = "go.etcd.io/etcd/server/v3"
API_SERVER: Final = "k8s.io/kubernetes/cmd/kube-apiserver"
READY_TIMEOUT_S: Final = 5.0


class Etcd(Component):
    """The store of the API server."""

    def __init__(self, directory: Path) -> None:
        super().__init__("etcd", directory)
        self.port, self._peers = free_port(), free_port()

    @property
    def url(self) -> str:
        """The address of the store for clients."""
        return f"http://{HOST}:{self.port}"

    def prepare(self) -> None:
        """Build the program if it is not in the cache."""
        build_programs()

    def command(self) -> list[str]:
        """The command of a single member that does not wait for its disk."""
        peers = f"http://{HOST}:{self._peers}"
        options = {
            "--data-dir": str(self.directory / "data"),
            "--listen-client-urls": self.url,
            "--advertise-client-urls": self.url,
            "--listen-peer-urls": peers,
            "--initial-advertise-peer-urls": peers,
            "--initial-cluster": f"default={peers}",
        }
        return [str(build_programs() / "etcd"), *_join(options), "--unsafe-no-fsync"]

    def check_ready(self) -> None:
        """Check that its health endpoint reports success."""
        # S310: a fixed scheme
        urllib.request.urlopen(f"{self.url}/health", timeout=READY_TIMEOUT_S).close()  # noqa: S310


class ApiServer(Component):
    """The API server, with its own TLS certificate, tokens of service accounts, roles, and an audit log of
    all requests.
    """

    def __init__(self, directory: Path, etcd: Etcd) -> None:
        super().__init__("kube-apiserver", directory)
        self.port = free_port()
        self.token = secrets.token_hex(16)
        self._etcd = etcd

    @property
    def url(self) -> str:
        """Its address."""
        return f"https://{HOST}:{self.port}"

    @property
    def authority(self) -> Path:
        """The certificate with which clients verify it."""
        return self.directory / "certificates" / "apiserver.crt"

    @property
    def audit(self) -> Path:
        """The audit log: a JSON line for each answered request, with user, verb, object and status."""
        return self.directory / "audit.log"

    def prepare(self) -> None:
        """Create the key of service accounts, the administrator's token and the audit policy."""
        key = self.directory / "service-accounts.key"
        if not key.exists():
            _generate_key(key)
        (self.directory / "tokens.csv").write_text(f"{self.token},administrator,1,system:masters\n")
        (self.directory / "audit.yaml").write_text(AUDIT_POLICY)

    def command(self) -> list[str]:
        """The command of a server for one machine, which does not register itself as an endpoint."""
        key = str(self.directory / "service-accounts.key")
        options = {
            "--etcd-servers": self._etcd.url,
            "--secure-port": str(self.port),
            "--bind-address": HOST,
            "--advertise-address": HOST,
            "--endpoint-reconciler-type": "none",
            "--cert-dir": str(self.authority.parent),
            "--service-account-key-file": key,
            "--service-account-signing-key-file": key,
            "--service-account-issuer": "https://kubernetes.default.svc",
            "--service-cluster-ip-range": "10.96.0.0/24",
            "--token-auth-file": str(self.directory / "tokens.csv"),
            "--authorization-mode": "RBAC",
            "--audit-policy-file": str(self.directory / "audit.yaml"),
            "--audit-log-path": str(self.audit),
        }
        return [str(build_programs() / "kube-apiserver"), *_join(options)]

    def check_ready(self) -> None:
        """Check that its own checks succeed."""
        if not self.authority.exists():
            raise TimeoutError("it has not made its certificate yet")
        request = urllib.request.Request(  # noqa: S310 - a fixed scheme
            f"{self.url}/readyz", headers={"Authorization": f"Bearer {self.token}"}
        )
        try:
            urllib.request.urlopen(  # noqa: S310 - a fixed scheme
                request, timeout=READY_TIMEOUT_S, context=ssl.create_default_context(cafile=self.authority)
            ).close()
        except urllib.error.HTTPError as error:
            raise TimeoutError(f"not ready: HTTP status {error.code}") from error


class Kubernetes(Started):
    """Both processes. They stop at the end of the ``with`` block or of the owning process."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory.resolve()
        self.etcd = Etcd(self.directory / "etcd")
        self.api_server = ApiServer(self.directory / "api-server", self.etcd)
        self._owner_watch: OwnerWatch | None = None

    def start(self) -> None:
        """Start both; raise StackError if they cannot be built or do not start."""
        build_programs()
        self.directory.mkdir(parents=True, exist_ok=True)
        self._owner_watch = OwnerWatch(self.directory)
        try:
            self.etcd.start()
            self.api_server.start()
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Stop both."""
        self.api_server.stop()
        self.etcd.stop()
        if self._owner_watch is not None:
            self._owner_watch.close()
            self._owner_watch = None


def build_programs() -> Path:
    """Return the directory with both programs, after building them if they are not in the cache.

    Raises Missing if Go is absent or too old, FetchFailed if a module cannot be downloaded, is not the pinned
    one, or does not compile.
    """
    final = cache_dir() / "go" / f"kubernetes-{VERSION}"
    if final.exists():
        return final
    check_go(GO_OLDEST, "the API server of Kubernetes")
    final.parent.mkdir(parents=True, exist_ok=True)
    # Next to the final path, because /tmp may be small: all sources and Go's own cache take 4 GB.
    with tempfile.TemporaryDirectory(dir=final.parent, prefix="building-") as scratch:
        module, built = Path(scratch) / "module", Path(scratch) / "programs"
        shutil.copytree(LOCKS / "kubernetes", module)
        built.mkdir()
        for name, package in (("etcd", ETCD), ("kube-apiserver", API_SERVER)):
            flags = ["-trimpath", f"-ldflags=-s -w {_version_flags()}", "-o", str(built / name)]
            run_go(Path(scratch), "build", *flags, package, within=module)
        built.rename(final)
    return final


def _version_flags() -> str:
    """Return the build flags with the version that the server reports. Without them, clients assume a
    development version.
    """
    major, minor, _ = VERSION.split(".")
    values = {
        "gitVersion": f"v{VERSION}",
        "gitMajor": major,
        "gitMinor": minor,
        "gitTreeState": "clean",
    }
    return " ".join(f"-X k8s.io/component-base/version.{name}={value}" for name, value in values.items())


def _generate_key(path: Path) -> None:
    done = subprocess.run(
        ["openssl", "genrsa", "-out", str(path), "2048"], capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise ComponentFailed(f"openssl genrsa failed: {done.stderr}")


def _join(options: Mapping[str, str]) -> list[str]:
    return [f"{name}={value}" for name, value in options.items()]


AUDIT_POLICY: Final = """\
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived, ResponseStarted]
rules:
  - level: Metadata
"""
