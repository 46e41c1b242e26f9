"""HDFS with a name service: two NameNodes of which one is active, and a DataNode.

The NameNodes share their edits in a directory, as over NFS, so that no JournalNode and no ZooKeeper is
needed. ``activate`` makes one of them active, as an administrator would. ::

    with HdfsPair(directory) as hdfs:
        hdfs_native.Client(hdfs.uri, hdfs.client_settings)
        hdfs.name_nodes["nn1"].kill()
        hdfs.activate("nn2")
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from dev.stack.process.owner_watch import OwnerWatch
from dev.stack.process.ports import free_port
from dev.stack.process.started import Started
from dev.stack.servers.hdfs import HOST, DataNode, NameNode, build_properties, run_tool


SERVICE: Final = "pair"
NAMES: Final = ("nn1", "nn2")
ADMIN: Final = "org.apache.hadoop.hdfs.tools.DFSHAAdmin"


class HdfsPair(Started):
    """Both NameNodes and the DataNode; ``nn1`` is active after the start."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory.resolve()
        addresses = {name: f"{HOST}:{free_port()}" for name in NAMES}
        self.client_settings = _build_client_settings(addresses)
        """Hadoop's settings with which a client finds the active NameNode."""
        shared = (
            build_properties(self.directory, 0)
            | self.client_settings
            | {
                "dfs.namenode.shared.edits.dir": f"file://{self.directory}/edits",
                "dfs.ha.fencing.methods": "shell(/bin/true)",
                "dfs.ha.automatic-failover.enabled": "false",
                "dfs.ha.tail-edits.period": "1",
            }
        )
        self.name_nodes = {name: self._name_node(name, shared) for name in NAMES}
        self.data_node = DataNode(self.directory / "dn", shared, self.name_nodes["nn1"])
        self._owner_watch: OwnerWatch | None = None

    def _name_node(self, name: str, shared: Mapping[str, str]) -> NameNode:
        directory = self.directory / name
        http = f"{HOST}:{free_port()}"
        own = {
            "dfs.ha.namenode.id": name,
            "dfs.namenode.name.dir": f"file://{directory}/names",
            "dfs.namenode.http-address": http,
            f"dfs.namenode.http-address.{SERVICE}.{name}": http,
        }
        return NameNode(directory, {**shared, **own})

    @property
    def uri(self) -> str:
        """The root of the file system."""
        return f"hdfs://{SERVICE}"

    def start(self) -> None:
        """Start all three; if one does not start, raise ComponentFailed with the end of its log."""
        self.directory.mkdir(parents=True, exist_ok=True)
        self._owner_watch = OwnerWatch(self.directory)
        first, second = self.name_nodes.values()
        try:
            first.prepare()
            if not (second.directory / "names").exists():
                shutil.copytree(first.directory / "names", second.directory / "names")
            for each in (first, second, self.data_node):
                each.launch()
            first.wait_ready()
            second.wait_ready()
            self.activate("nn1")
            self.data_node.wait_ready()
        except BaseException:
            self.stop()
            raise

    def activate(self, name: str) -> None:
        """Make a NameNode active. The other one must be stopped or on standby."""
        run_tool(self.name_nodes["nn1"], ADMIN, "-transitionToActive", "--forceactive", name)

    def deactivate(self, name: str) -> None:
        """Put the active NameNode on standby."""
        run_tool(self.name_nodes["nn1"], ADMIN, "-transitionToStandby", name)

    def stop(self) -> None:
        """Stop all processes that run."""
        for each in (self.data_node, *self.name_nodes.values()):
            each.stop()
        if self._owner_watch is not None:
            self._owner_watch.close()
            self._owner_watch = None


def _build_client_settings(addresses: Mapping[str, str]) -> dict[str, str]:
    provider = "org.apache.hadoop.hdfs.server.namenode.ha.ConfiguredFailoverProxyProvider"
    return {
        "fs.defaultFS": f"hdfs://{SERVICE}",
        "dfs.nameservices": SERVICE,
        f"dfs.ha.namenodes.{SERVICE}": ",".join(addresses),
        f"dfs.client.failover.proxy.provider.{SERVICE}": provider,
    } | {f"dfs.namenode.rpc-address.{SERVICE}.{name}": address for name, address in addresses.items()}
