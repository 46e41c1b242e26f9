"""One new database of a server for each test."""

from __future__ import annotations

import uuid

from sqlalchemy import create_engine, make_url, text

from dev.stack.servers.databases import PASSWORD, DatabaseServer
from streaming.keylog.database import parse_address


def new_database(server: DatabaseServer) -> str:
    """Create an empty database and return its address with the password."""
    name = f"t{uuid.uuid4().hex[:12]}"
    engine = create_engine(parse_address(server.url, PASSWORD), isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.execute(text(f"CREATE DATABASE {name}"))
    engine.dispose()
    return make_url(server.url).set(password=PASSWORD, database=name).render_as_string(hide_password=False)
