"""A Postgres for tests: the machine's programs, in a temporary folder, on loopback."""

from __future__ import annotations

import os
import pwd
import secrets
import shutil
import signal
import subprocess
import tempfile
import time
import uuid
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.support.servers.starting import free_port

USER = "dagster"
_LONGEST_START_S = 300.0


class PostgresServer:
    """A server in its own process; it requires a password, and its data is temporary."""

    def __init__(self, port: int, password: str) -> None:
        self.port, self.password = port, password

    @property
    def environment(self) -> dict[str, str]:
        """The environment variables in docs/production.md."""
        return {
            "DAGSTER_PG_HOST": "127.0.0.1",
            "DAGSTER_PG_USER": USER,
            "DAGSTER_PG_PASSWORD": self.password,
        }

    def new_database(self) -> str:
        name = f"database_{uuid.uuid4().hex}"
        self.query("postgres", f"CREATE DATABASE {name}")
        return name

    def query(self, database: str, query: str, *values: object) -> list[tuple[Any, ...]]:
        """Run and commit a query; return its rows, if it has any."""
        import psycopg2

        place = {"host": "127.0.0.1", "port": self.port, "dbname": database}
        with closing(
            psycopg2.connect(user=USER, password=self.password, connect_timeout=60, **place)
        ) as connection:
            connection.autocommit = True  # CREATE DATABASE requires it
            with connection.cursor() as cursor:
                cursor.execute(query, values or None)
                return [] if cursor.description is None else cursor.fetchall()


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    programs = _programs()
    if programs is None:
        pytest.skip("this machine has no Postgres (initdb and postgres)")
    # Not pytest's folder, which only its owner may enter: Postgres refuses to run as root.
    folder = Path(tempfile.mkdtemp(prefix="postgres-of-the-test-"))
    try:
        yield from _serve(programs, folder, _ordinary_user(folder))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _serve(programs: Path, folder: Path, run_as: dict[str, Any]) -> Iterator[PostgresServer]:
    password, data = secrets.token_urlsafe(12), folder / "data"
    password_file = folder / "password"
    password_file.write_text(password)
    if run_as:
        os.chown(password_file, run_as["user"], run_as["group"])
    access = ["-U", USER, "-A", "scram-sha-256", "--pwfile", str(password_file)]
    texts = ["--encoding", "UTF8", "--locale", "C"]
    made = subprocess.run(
        [str(programs / "initdb"), "-D", str(data), *access, *texts, "--no-sync"],
        cwd=folder,
        capture_output=True,
        check=False,
        text=True,
        **run_as,
    )
    if made.returncode:
        raise RuntimeError(f"initdb failed: {made.stderr}")
    port = free_port()
    settings = ["fsync=off", "unix_socket_directories=", "listen_addresses=127.0.0.1"]
    options = [part for each in settings for part in ("-c", each)]
    with (
        (folder / "log").open("wb") as log,
        subprocess.Popen(
            [str(programs / "postgres"), "-D", str(data), "-p", str(port), *options],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            **run_as,
        ) as process,
    ):
        server = PostgresServer(port, password)
        try:
            _wait_until_it_answers(process, server, folder / "log")
            yield server
        finally:
            process.send_signal(signal.SIGQUIT)  # ends its processes without waiting for clients


def _programs() -> Path | None:
    """The folder of the newest Postgres; Debian does not put it on the path."""
    on_path = [Path(found).parent for found in [shutil.which("initdb")] if found]
    packaged = Path("/usr/lib/postgresql").glob("*/bin")
    for folder in (*on_path, *sorted(packaged, key=lambda path: path.parent.name, reverse=True)):
        if all((folder / name).exists() for name in ("initdb", "postgres")):
            return folder
    return None


def _ordinary_user(folder: Path) -> dict[str, Any]:
    """The user of the programs: the user of the tests, except root."""
    if os.getuid() != 0:
        return {}
    nobody = pwd.getpwnam("nobody")
    os.chown(folder, nobody.pw_uid, nobody.pw_gid)
    return {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}


def _wait_until_it_answers(
    process: subprocess.Popen[bytes], server: PostgresServer, log: Path
) -> None:
    import psycopg2

    deadline = time.monotonic() + _LONGEST_START_S
    while time.monotonic() < deadline and process.poll() is None:
        try:
            server.query("postgres", "SELECT 1")
        except psycopg2.OperationalError:
            time.sleep(0.05)
        else:
            return
    raise RuntimeError(f"Postgres did not start: {log.read_text()}")
