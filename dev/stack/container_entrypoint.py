"""Runs one component in the foreground of a container: ``python -m dev.stack.container_entrypoint
kafka|metastore|engine …``.

The process prepares the component like every launcher in this package, and then replaces itself with the
server (``exec``). So the server receives the container's signals, and its exit code is the container's. Only
the standard library is needed.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from dev.stack.hive.servers import Metastore, SqlEngine
from dev.stack.process.component import Component
from dev.stack.servers.kafka import Kafka


EVERYWHERE = "0.0.0.0"  # noqa: S104 (only published ports of a container can be reached)


def choose_component(arguments: argparse.Namespace) -> Component:
    """Return the component that the command line names."""
    directory: Path = arguments.dir
    if arguments.what == "kafka":
        return Kafka(directory, arguments.port, host=EVERYWHERE, advertised=arguments.advertise)
    if arguments.what == "metastore":
        return Metastore(directory, arguments.port, host=EVERYWHERE)
    return SqlEngine(
        Metastore(directory, 1), arguments.port, host=EVERYWHERE, metastore_uri=arguments.metastore
    )


def main() -> None:
    """Prepare the component, and replace this process with its server."""
    parser = argparse.ArgumentParser(prog="dev.stack.container_entrypoint")
    parser.add_argument("what", choices=["kafka", "metastore", "engine"])
    parser.add_argument(
        "--dir",
        type=Path,
        required=True,
        help="data directory, the same path in all containers that read its files",
    )
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--advertise", default="127.0.0.1", help="host name that Kafka advertises to clients")
    parser.add_argument("--metastore", help="thrift://host:port of the engine's metastore")
    server = choose_component(parser.parse_args())
    server.directory.mkdir(parents=True, exist_ok=True)
    server.prepare()
    command = server.command()
    os.chdir(server.directory)
    os.execvpe(command[0], command, os.environ | server.environment())  # noqa: S606 (the process is meant to become the server)


if __name__ == "__main__":
    main()
