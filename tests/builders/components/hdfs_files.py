"""Files on a real HDFS, written and asked about without Tideline's code."""

from __future__ import annotations

import json
import urllib.request
from typing import Any, Final

import hdfs_native

from dev.stack.servers.hdfs import Hdfs
from handlers.events import SourceFile
from handlers.files.paths import parse_location


ATTEMPTS: Final = 5


def write(hdfs: Hdfs, uri: str, content: bytes, block_bytes: int | None = None) -> None:
    """Create a file, with its directory; a busy machine may need several attempts, because the client does
    not wait for blocks."""
    options = hdfs_native.WriteOptions(block_size=block_bytes, overwrite=True, create_parent=True)
    client = hdfs_native.Client(hdfs.uri)
    for attempt in range(1, ATTEMPTS + 1):
        try:
            with client.create(parse_location(uri).path, options) as file:
                file.write(content)
        except RuntimeError:
            if attempt == ATTEMPTS:
                raise
        else:
            return


def checksum_of(hdfs: Hdfs, uri: str) -> str:
    """Return what Hive would record: HDFS's own checksum, as the metastore's client gets it."""
    http = hdfs.name_node.properties["dfs.namenode.http-address"]
    path = parse_location(uri).path
    with urllib.request.urlopen(f"http://{http}/webhdfs/v1{path}?op=GETFILECHECKSUM", timeout=30) as answer:
        found: dict[str, Any] = json.load(answer)["FileChecksum"]
    return str(found["bytes"])[:56]


def composite_crc_of(hdfs: Hdfs, uri: str) -> str:
    """Return what Hive would record with ``dfs.checksum.combine.mode`` = COMPOSITE_CRC, which WebHDFS
    ignores."""
    mode = "-Ddfs.checksum.combine.mode=COMPOSITE_CRC"
    output = hdfs.administer("org.apache.hadoop.fs.FsShell", mode, "-checksum", uri)
    _, algorithm, found = output.splitlines()[-1].split()  # warnings of the log precede it
    assert algorithm == "COMPOSITE-CRC32C"
    return found


def record(hdfs: Hdfs, uri: str, cm_root: str) -> SourceFile:
    """Return the entry of a file in an event of the source."""
    return SourceFile(uri, checksum_of(hdfs, uri), cm_root)


def on_hdfs(uri: str, cluster: str) -> dict[str, str]:
    """Return the settings of a Hive cluster with all its directories on HDFS."""
    root = f"{uri}/{cluster}"
    return {
        "fs.defaultFS": uri,
        "hive.metastore.warehouse.dir": f"{root}/warehouse",
        "hive.metastore.warehouse.external.dir": f"{root}/external",
        "hive.repl.cmrootdir": f"{root}/cmroot",
        "hive.exec.scratchdir": f"{root}/scratch",
        "hive.user.install.directory": f"{root}/user",
        "dfs.replication": "1",
    }
