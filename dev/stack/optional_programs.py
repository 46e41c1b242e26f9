"""Lists programs that some tests need and that no Python or Java package provides.

``make test`` lists the missing ones before it starts, with the command that installs each. In CI, the same
tests fail instead of being skipped.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping

from dev.stack.errors import Missing
from dev.stack.servers.databases import MariaDB, PostgreSQL
from state.errors import ConfigError
from streaming.driver.installation import use_java


OBJECT_STORE = "TIDELINE_TEST_S3"


def list_missing(environment: Mapping[str, str]) -> Iterator[str]:
    """Yield a line for each missing component: the tests that are skipped, and how to install it."""
    try:
        use_java()
    except ConfigError as error:
        yield f"flat tables and copy jobs (Spark): {error.hint}"
    for server, program in ((MariaDB, "mariadbd"), (PostgreSQL, "initdb")):
        try:
            server.program(program)
        except Missing as error:
            yield f"the key log on {server.__name__}: {error}"
    if shutil.which("openssl") is None:
        yield "connections with TLS: run 'apt-get install openssl' as root"
    if OBJECT_STORE not in environment:
        yield "object stores: run 'make s3', which starts one"
