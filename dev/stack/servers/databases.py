"""MariaDB and PostgreSQL, each in its own directory, for the tests of the key log.

They are not part of the default stack. The programs come from system packages (Debian: ``mariadb-server``,
``postgresql``), because no package registry of Python or Java has them. ::

    with MariaDB(directory) as server:
        server.url  # mysql://tideline:...@127.0.0.1:PORT/tideline

Both refuse to run as root. If root starts them, they run as the users of their packages (``mysql``,
``postgres``) through ``setpriv``, which replaces itself with the server. (``runuser`` would remain as its
parent, and kill the server two seconds after a stop request.) Both run without syncing, because test data
need not survive a crash of the machine.
"""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
from pathlib import Path
from typing import Self

from dev.stack.errors import ComponentFailed, Missing
from dev.stack.process.component import Component
from dev.stack.process.owner_watch import OwnerWatch
from dev.stack.process.ports import free_port


HOST = "127.0.0.1"
USER = "tideline"
PASSWORD = "tide line/@:%"  # noqa: S105 - a test server; contains every character that a URL must escape
DATABASE = "tideline"
INIT_TIMEOUT_S = 60
_DIRECTORIES = "/usr/sbin:/usr/local/sbin:/usr/lib/postgresql"


class DatabaseServer(Component):
    """A server; a context manager that also stops when the owning process ends."""

    scheme = ""
    account = ""
    """The system user that runs the server if root starts it."""
    package = ""
    start_timeout_s = 60.0

    def __init__(self, name: str, directory: Path, port: int | None = None) -> None:
        super().__init__(name, directory)
        self.port = port or free_port()
        self.data = self.directory / "data"
        self._owner_watch: OwnerWatch | None = None

    @property
    def url(self) -> str:
        """The address of the database, without the password."""
        return f"{self.scheme}://{USER}@{HOST}:{self.port}/{DATABASE}"

    def as_account(self, *command: str) -> list[str]:
        """Return the command; if this process is root, wrapped to run as the user of the server."""
        if os.getuid() != 0:
            return list(command)
        group = pwd.getpwnam(self.account).pw_gid
        return ["setpriv", f"--reuid={self.account}", f"--regid={group}", "--init-groups", "--", *command]

    def give_directory(self) -> None:
        """Create the directory; if this process is root, make the server's user its owner."""
        self.directory.mkdir(parents=True, exist_ok=True)
        if os.getuid() == 0:
            account = pwd.getpwnam(self.account)
            os.chown(self.directory, account.pw_uid, account.pw_gid)

    def write(self, name: str, content: str) -> Path:
        """Write a file that the user of the server may read, and return its path."""
        file = self.directory / name
        file.write_text(content)
        file.chmod(0o644)
        return file

    def initialise(self, command: list[str]) -> None:
        """Run the program that creates the data directory; raise ComponentFailed with its output."""
        done = subprocess.run(
            command, cwd=self.directory, capture_output=True, text=True, timeout=INIT_TIMEOUT_S, check=False
        )
        if done.returncode:
            raise ComponentFailed(f"{self.name}: {command[-1]} failed: {(done.stdout + done.stderr)[-2000:]}")

    @classmethod
    def program(cls, name: str) -> str:
        """Return the path of a program; raise Missing if its package is not installed."""
        directories = [
            os.environ.get("PATH", os.defpath),
            *_DIRECTORIES.split(":"),
            *_find_postgres_directories(),
        ]
        found = shutil.which(name, path=os.pathsep.join(directories))
        if found is None:
            raise Missing(f"{name} is not installed: run 'apt-get install {cls.package}' as root")
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

    def __exit__(self, *_: object) -> None:
        self.stop()
        if self._owner_watch is not None:
            self._owner_watch.close()
            self._owner_watch = None


class MariaDB(DatabaseServer):
    """A MariaDB server with one user, who has all rights in one database."""

    scheme = "mariadb"
    account = "mysql"
    package = "mariadb-server"

    def __init__(self, directory: Path, port: int | None = None) -> None:
        super().__init__("mariadb", directory, port)

    def prepare(self) -> None:
        """Create the data directory once, and write the statements that the server runs at its start."""
        install = self.program("mariadb-install-db")
        self.give_directory()
        self.write("init.sql", _MARIADB_INIT)
        if not (self.data / "mysql").is_dir():
            options = ["--no-defaults", f"--datadir={self.data}", "--auth-root-authentication-method=normal"]
            self.initialise(self.as_account(install, *options, "--skip-test-db"))

    def command(self) -> list[str]:
        """The command of the server in the foreground."""
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

    def check_ready(self) -> None:
        """Check that the user can log in and run a query."""
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
            raise TimeoutError(f"the connection to MariaDB failed: {error}") from error


class PostgreSQL(DatabaseServer):
    """A PostgreSQL server with one user, who owns one database."""

    scheme = "postgresql"
    account = "postgres"
    package = "postgresql"

    def __init__(self, directory: Path, port: int | None = None) -> None:
        super().__init__("postgresql", directory, port)

    def prepare(self) -> None:
        """Create the data directory once, with the user as the first user of the server."""
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
        """Stop without waiting for clients, as SIGTERM would; do nothing if the server does not run."""
        self._end(signal.SIGINT)

    def command(self) -> list[str]:
        """The command of the server in the foreground."""
        settings = {
            "port": self.port,
            "listen_addresses": HOST,
            "unix_socket_directories": self.directory,
            "fsync": "off",
            "shared_buffers": "64MB",
        }
        options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        return self.as_account(self.program("postgres"), "-D", str(self.data), *options)

    def check_ready(self) -> None:
        """Check that the user can log in. Creates the database if it does not exist."""
        import psycopg

        login = psycopg.conninfo.make_conninfo(
            host=HOST, port=self.port, user=USER, password=PASSWORD, dbname="postgres", connect_timeout=2
        )
        try:
            with psycopg.connect(login, autocommit=True) as connection:
                query = "select 1 from pg_database where datname = %s"
                if connection.execute(query, (DATABASE,)).fetchone() is None:
                    connection.execute(f"create database {DATABASE}")
        except psycopg.Error as error:
            raise TimeoutError(f"the connection to PostgreSQL failed: {error}") from error


def _find_postgres_directories() -> list[str]:
    """Return Debian's program directories, one per version, the newest first."""
    return sorted(map(str, Path("/usr/lib/postgresql").glob("*/bin")), reverse=True)


# One statement per line. The grant covers further databases, so that each test can have its own.
_MARIADB_INIT = f"""\
CREATE DATABASE IF NOT EXISTS {DATABASE};
CREATE USER IF NOT EXISTS '{USER}'@'{HOST}' IDENTIFIED BY '{PASSWORD}';
GRANT ALL ON *.* TO '{USER}'@'{HOST}';
"""
