"""The object store that ``TIDELINE_TEST_S3`` names, with the settings of each of its clients.

``make s3`` starts one; any other with the S3 interface works as well: ``http://access:secret@host:port``.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import re
import uuid
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from http.client import HTTPConnection
from pathlib import Path
from typing import Self
from urllib.parse import urlencode, urlsplit

from dev.stack.cluster import HiveCluster
from dev.stack.downloads.jars import fetch, find_missing, locate_jars, read_lock
from dev.stack.downloads.maven_repository import find_repository
from dev.stack.endpoints import ClusterEndpoints
from dev.stack.hive.settings import ClusterSettings
from dev.stack.object_store import VARIABLE
from dev.stack.process.owner_watch import OwnerWatch
from handlers.files.paths import parse_location


@dataclass(frozen=True, slots=True)
class TestStore:
    """An object store."""

    __test__ = False

    scheme: str
    address: str
    """``host:port``."""
    access_key: str
    secret_key: str

    @classmethod
    def named(cls) -> Self | None:
        """Return the store that the environment names; None if it names none."""
        endpoint = os.environ.get(VARIABLE)
        if not endpoint:
            return None
        parts = urlsplit(endpoint)
        assert parts.username, f"{VARIABLE} is http://access:secret@host:port"
        assert parts.password, f"{VARIABLE} is http://access:secret@host:port"
        return cls(parts.scheme, f"{parts.hostname}:{parts.port}", parts.username, parts.password)

    @property
    def arrow(self) -> dict[str, object]:
        """Options of ``pyarrow.fs.S3FileSystem``, as in ``files.options.s3a`` of the configuration."""
        return {
            "access_key": self.access_key,
            "secret_key": self.secret_key,
            "endpoint_override": self.address,
            "scheme": self.scheme,
            "region": "us-east-1",
        }

    @property
    def hadoop(self) -> dict[str, str]:
        """Hadoop's settings; Spark takes them with the prefix ``spark.hadoop.``."""
        return {
            "fs.s3a.endpoint": f"{self.scheme}://{self.address}",
            "fs.s3a.endpoint.region": "us-east-1",
            "fs.s3a.access.key": self.access_key,
            "fs.s3a.secret.key": self.secret_key,
            "fs.s3a.path.style.access": "true",
            "fs.s3a.connection.ssl.enabled": str(self.scheme == "https").lower(),
        }

    def copy_objects(self, directory: str, target: str) -> None:
        """Copy the objects below a directory, as a client does that begins to move it; both are URIs."""
        import pyarrow.fs

        system = pyarrow.fs.S3FileSystem(**self.arrow)
        old, new = (parse_location(uri) for uri in (directory, target))
        for each in system.get_file_info(
            pyarrow.fs.FileSelector(f"{old.authority}{old.path}", recursive=True)
        ):
            if each.type == pyarrow.fs.FileType.File:
                relative = each.path.removeprefix(f"{old.authority}{old.path}")
                system.copy_file(each.path, f"{new.authority}{new.path}{relative}")

    @property
    def spark(self) -> dict[str, str]:
        """The same settings, as a program passes them to Spark."""
        return {f"spark.hadoop.{name}": value for name, value in self.hadoop.items()}

    @property
    def configured(self) -> dict[str, str]:
        """The settings without the keys, as in ``spark.conf`` of a flat table; ``environment`` has the
        keys."""
        return {name: value for name, value in self.spark.items() if not name.endswith(".key")}

    @property
    def environment(self) -> dict[str, str]:
        """The keys, as drivers and executors inherit them."""
        return {"AWS_ACCESS_KEY_ID": self.access_key, "AWS_SECRET_ACCESS_KEY": self.secret_key}

    def assume(self, policy: str) -> tuple[str, str, str]:
        """Return access key, secret key and token of a session with the rights of ``policy`` only:
        the call ``AssumeRole``, signed as S3 requires (version 4)."""
        form = {"Action": "AssumeRole", "Version": "2011-06-15", "Policy": policy}
        body = urlencode(form).encode()
        now = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
        scope = [now[:8], "us-east-1", "sts", "aws4_request"]
        headers = {
            "content-type": "application/x-www-form-urlencoded",
            "host": self.address,
            "x-amz-date": now,
        }
        names = ";".join(headers)
        lines = "".join(f"{name}:{value}\n" for name, value in headers.items())
        request = f"POST\n/\n\n{lines}\n{names}\n{hashlib.sha256(body).hexdigest()}"
        digest = hashlib.sha256(request.encode()).hexdigest()
        key = f"AWS4{self.secret_key}".encode()
        for part in scope:
            key = hmac.digest(key, part.encode(), "sha256")
        text = f"AWS4-HMAC-SHA256\n{now}\n{'/'.join(scope)}\n{digest}"
        signature = hmac.digest(key, text.encode(), "sha256").hex()
        credential = f"{self.access_key}/{'/'.join(scope)}"
        headers["authorization"] = (
            f"AWS4-HMAC-SHA256 Credential={credential}, SignedHeaders={names}, Signature={signature}"
        )
        connection = HTTPConnection(self.address, timeout=60)
        with closing(connection):
            connection.request("POST", "/", body, headers)
            answer = connection.getresponse().read().decode()
        found = dict(re.findall(r"<(\w+)>([^<]*)</", answer))
        assert "SessionToken" in found, answer
        return found["AccessKeyId"], found["SecretAccessKey"], found["SessionToken"]

    def new_bucket(self) -> str:
        """Create a bucket and return its ``s3a://`` address."""
        import pyarrow.fs

        name = f"tideline-{uuid.uuid4().hex[:12]}"
        pyarrow.fs.S3FileSystem(**self.arrow, allow_bucket_creation=True).create_dir(name)
        return f"s3a://{name}"


def in_store(store: TestStore) -> ClusterSettings:
    """Return the settings of a cluster that reads and writes in the store."""
    return ClusterSettings(
        extra=store.hadoop
        | {
            "fs.s3a.etag.checksum.enabled": "true",  # the change manager names its files by checksums
            "hive.conf.hidden.list": "javax.jdo.option.ConnectionPassword",  # jobs need the keys of the store
        },
        jars=tuple(hadoop_jars()),
    )


def hadoop_jars() -> list[Path]:
    """Return the jars of Hadoop's S3 client; fetch missing ones."""
    jars = read_lock("hadoop-s3")
    if find_missing(jars):
        fetch(jars, find_repository())
    return locate_jars(jars)


@contextmanager
def hive_with_store(store: TestStore, directory: Path) -> Iterator[ClusterEndpoints]:
    """Run a cluster whose metastore and engine have the store's client among their jars."""
    cluster = HiveCluster(directory, ClusterSettings(jars=tuple(hadoop_jars()), extra=store.hadoop))
    owner_watch = OwnerWatch(directory)
    try:
        cluster.metastore.start()
        cluster.engine.start()
        yield cluster.endpoints()
    finally:
        cluster.engine.stop()
        cluster.metastore.stop()
        owner_watch.close()
