"""MariaDB and PostgreSQL in a directory of their own, for the tests of the key log.

They are no part of the default stack. Their programs come from the system's packages (Debian: ``mariadb-server``, ``postgresql``),
because no package registry for Python or Java has them. ::

    with MariaDB(directory) as server:
        server.url  # mysql://tideline:...@127.0.0.1:PORT/tideline

Both refuse to run as root; started by root they run as the users that their packages made (``mysql``, ``postgres``), through
``setpriv``, which becomes the server (``runuser`` would stay in between, and kill it two seconds after being asked to stop). Both are told not to sync: a test's data need not outlive the machine.
"""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Self

from dev.stack.errors import ComponentFailed, Missing
from dev.stack.process.component import Component
from dev.stack.process.owner_watch import OwnerWatch
from dev.stack.process.ports import free_port


if TYPE_CHECKING:
    from types import TracebackType


HOST = "127.0.0.1"
USER = "tideline"
PASSWORD = "tide line/@:%"  # noqa: S105 - a server of our own; with every character that an address has to escape
DATABASE = "tideline"
INIT_TIMEOUT_S = 60
_PLACES = "/usr/sbin:/usr/local/sbin:/usr/lib/postgresql"


class DatabaseServer(Component):
    """One server; a context manager, and ended with the process that owns it."""

    scheme = ""
    account = ""
    """The system's user that it runs as when root starts it."""
    package = ""
    start_timeout_s = 60.0

    def __init__(self, name: str, directory: Path, port: int | None = None) -> None:
        super().__init__(name, directory)
        self.port = port or free_port()
        self.data = self.directory / "data"
        self._owner_watch: OwnerWatch | None = None

    @property
    def url(self) -> str:
        """The database's address, without the password."""
        return f"{self.scheme}://{USER}@{HOST}:{self.port}/{DATABASE}"

    def as_account(self, *command: str) -> list[str]:
        """Return the command, run as the server's own user where we are root."""
        if os.getuid() != 0:
            return list(command)
        group = pwd.getpwnam(self.account).pw_gid
        return ["setpriv", f"--reuid={self.account}", f"--regid={group}", "--init-groups", "--", *command]

    def give_directory(self) -> None:
        """Make the directory, and let the server's user write there where we are root (who has to be able to reach it)."""
        self.directory.mkdir(parents=True, exist_ok=True)
        if os.getuid() == 0:
            account = pwd.getpwnam(self.account)
            os.chown(self.directory, account.pw_uid, account.pw_gid)

    def write(self, name: str, content: str) -> Path:
        """Write a file that the server's user may read; returns its path."""
        file = self.directory / name
        file.write_text(content)
        file.chmod(0o644)
        return file

    def initialise(self, command: list[str]) -> None:
        """Run the program that makes the data directory; raises ComponentFailed with what it said."""
        done = subprocess.run(
            command, cwd=self.directory, capture_output=True, text=True, timeout=INIT_TIMEOUT_S, check=False
        )
        if done.returncode:
            raise ComponentFailed(f"{self.name}: {command[-1]} failed: {(done.stdout + done.stderr)[-2000:]}")

    def program(self, name: str) -> str:
        """Return the path of a program; raises Missing where its package is not installed."""
        places = [os.environ.get("PATH", os.defpath), *_PLACES.split(":"), *_postgres_places()]
        found = shutil.which(name, path=os.pathsep.join(places))
        if found is None:
            raise Missing(f"{name} is not installed: 'apt-get install {self.package}' (as root) brings it")
        return str(Path(found).resolve())

    def __enter__(self) -> Self:
        self.directory.mkdir(parents=True, exist_ok=True)
        self._owner_watch = OwnerWatch(self.directory)
        try:
            self.start()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        if self._owner_watch is not None:
            self._owner_watch.close()
            self._owner_watch = None


class MariaDB(DatabaseServer):
    """A MariaDB server with one user, who may do everything in one database."""

    scheme = "mariadb"
    account = "mysql"
    package = "mariadb-server"

    def __init__(self, directory: Path, port: int | None = None) -> None:
        super().__init__("mariadb", directory, port)

    def prepare(self) -> None:
        """Make the data directory, once, and the statements that the server runs when it starts."""
        install = self.program("mariadb-install-db")
        self.give_directory()
        self.write("init.sql", _MARIADB_INIT)
        if not (self.data / "mysql").is_dir():
            options = ["--no-defaults", f"--datadir={self.data}", "--auth-root-authentication-method=normal"]
            self.initialise(self.as_account(install, *options, "--skip-test-db"))

    def command(self) -> list[str]:
        """The server itself, in the foreground."""
        return self.as_account(
            self.program("mariadbd"),
            "--no-defaults",
            f"--datadir={self.data}",
            f"--port={self.port}",
            f"--bind-address={HOST}",
            f"--socket={self.directory}/sock",
            f"--init-file={self.directory}/init.sql",
            "--skip-name-resolve",
            "--innodb-buffer-pool-size=64M",
            "--innodb-flush-log-at-trx-commit=2",
            "--performance-schema=OFF",
        )

    def ask(self) -> None:
        """It serves when our user is let in and a row comes back."""
        import pymysql

        try:
            with (
                pymysql.connect(
                    host=HOST,
                    port=self.port,
                    user=USER,
                    password=PASSWORD,
                    database=DATABASE,
                    connect_timeout=2,
                ) as connection,
                connection.cursor() as cursor,
            ):
                cursor.execute("select 1")
        except pymysql.MySQLError as error:
            raise TimeoutError(f"MariaDB does not answer: {error}") from error


class PostgreSQL(DatabaseServer):
    """A PostgreSQL server with one user, who owns one database."""

    scheme = "postgresql"
    account = "postgres"
    package = "postgresql"

    def __init__(self, directory: Path, port: int | None = None) -> None:
        super().__init__("postgresql", directory, port)

    def prepare(self) -> None:
        """Make the data directory with our user as its first one, once."""
        initdb = self.program("initdb")
        self.give_directory()
        if (self.data / "PG_VERSION").is_file():
            return
        secret = self.write("password", PASSWORD)
        options = [f"--pgdata={self.data}", f"--username={USER}", f"--pwfile={secret}", "--no-sync"]
        self.initialise(
            self.as_account(initdb, *options, "--auth=scram-sha-256", "--encoding=UTF8", "--locale=C.UTF-8")
        )

    def stop(self) -> None:
        """Ask it to end without waiting for its clients, which SIGTERM would do; fine when it does not run."""
        self._end(signal.SIGINT)

    def command(self) -> list[str]:
        """The server itself, in the foreground."""
        settings = {
            "port": self.port,
            "listen_addresses": HOST,
            "unix_socket_directories": self.directory,
            "fsync": "off",
            "shared_buffers": "64MB",
        }
        options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        return self.as_account(self.program("postgres"), "-D", str(self.data), *options)

    def ask(self) -> None:
        """It serves when our user is let in and its database is there."""
        import psycopg

        login = psycopg.conninfo.make_conninfo(
            host=HOST, port=self.port, user=USER, password=PASSWORD, dbname="postgres", connect_timeout=2
        )
        try:
            with psycopg.connect(login, autocommit=True) as connection:
                wanted = "select 1 from pg_database where datname = %s"
                if connection.execute(wanted, (DATABASE,)).fetchone() is None:
                    connection.execute(f"create database {DATABASE}")
        except psycopg.Error as error:
            raise TimeoutError(f"PostgreSQL does not answer: {error}") from error


def _postgres_places() -> list[str]:
    """Debian keeps a directory of programs per version; the newest first."""
    return sorted(map(str, Path("/usr/lib/postgresql").glob("*/bin")), reverse=True)


# One statement a line. The grant reaches further databases, so that every test has one of its own.
_MARIADB_INIT = f"""\
CREATE DATABASE IF NOT EXISTS {DATABASE};
CREATE USER IF NOT EXISTS '{USER}'@'{HOST}' IDENTIFIED BY '{PASSWORD}';
GRANT ALL ON *.* TO '{USER}'@'{HOST}';
"""
