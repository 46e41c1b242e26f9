"""The metastore endpoint as a capability: the command ``tideline serve``, which needs no configuration, Kafka, index or state."""

from __future__ import annotations

from daemon.capability import Capability, Command


class Endpoint(Capability):
    """Serves the metastore's own protocol to clients of any Hive version."""

    commands = (
        Command("serve", "daemon.endpoint.commands", "Serve old metastore clients in front of a metastore."),
    )
