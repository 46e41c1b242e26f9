"""Run one component in the foreground, as a container does: ``python -m dev.stack.container_entrypoint kafka|metastore|engine …``.

The process prepares the component like any launcher here and then becomes the server itself (``exec``), so signals and
exit code are the server's. The standard library is enough for it.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import TYPE_CHECKING

from dev.stack.hive.servers import Metastore, SqlEngine
from dev.stack.servers.kafka import Kafka


if TYPE_CHECKING:
    from dev.stack.process.component import Component

EVERYWHERE = "0.0.0.0"  # noqa: S104 (inside a container only published ports are reached)


def component(arguments: argparse.Namespace) -> Component:
    """The component that the command line describes."""
    directory: Path = arguments.dir
    if arguments.what == "kafka":
        return Kafka(directory, arguments.port, host=EVERYWHERE, advertised=arguments.advertise)
    if arguments.what == "metastore":
        return Metastore(directory, arguments.port, host=EVERYWHERE)
    return SqlEngine(
        Metastore(directory, 1), arguments.port, host=EVERYWHERE, metastore_uri=arguments.metastore
    )


def main() -> None:
    """Parse, prepare, become the server."""
    parser = argparse.ArgumentParser(prog="dev.stack.container_entrypoint")
    parser.add_argument("what", choices=["kafka", "metastore", "engine"])
    parser.add_argument(
        "--dir", type=Path, required=True, help="data directory; the same path for all who read its files"
    )
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--advertise", default="127.0.0.1", help="host name that Kafka tells its clients")
    parser.add_argument("--metastore", help="thrift://host:port that the engine works with")
    server = component(parser.parse_args())
    server.directory.mkdir(parents=True, exist_ok=True)
    server.prepare()
    command = server.command()
    os.chdir(server.directory)
    os.execvpe(command[0], command, os.environ | server.environment())  # noqa: S606 (becoming the server is the point)


if __name__ == "__main__":
    main()
