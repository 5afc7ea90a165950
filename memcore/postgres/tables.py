"""Tables that set themselves up: any number of processes may open the same store at once.

A registry row says of each table of memcore which layout it has and, for vectors, which embedding model and
dimension. It is written in the transaction that makes the table, under an advisory lock of the whole
database: `CREATE … IF NOT EXISTS` alone is not safe when two sessions run it at the same time.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from importlib.resources import files
from typing import NamedTuple

from psycopg import errors, sql

from memcore import guards
from memcore.errors import ConfigurationError, InvalidArgument, MemcoreError, ModelMismatch, StoreUnavailable
from memcore.postgres.connections import Connection
from memcore.postgres.database import Database
from memcore.postgres.failures import sentence

LOCK = 0x6D656D636F7265
"""Key of the advisory lock: the bytes of `memcore`. One for the database, for extensions belong to it."""
SET_UP_SECONDS = 3600.0
"""An older table may have to be taken over and indexed, by this process or by one that is waited for."""
MAX_NAME_BYTES = 63
LAYOUT = 1
_RACED = (errors.UniqueViolation, errors.DuplicateSchema, errors.DuplicateObject)
# Whoever waits for the lock has to see what was made meanwhile, and may have to wait for long.
_BEGIN = b"""
SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
SET LOCAL statement_timeout = 0;
SET LOCAL lock_timeout = 0
"""
# A table that somebody dropped is made anew, whatever the registry says.
_SELECT = """
SELECT layout, model, dimension FROM {registry}
WHERE name = %s AND to_regclass(format('%%I.%%I', %s::text, %s::text)) IS NOT NULL
"""
_INSERT = """
INSERT INTO {registry} (name, layout, model, dimension) VALUES (%s, %s, %s, %s)
ON CONFLICT (name) DO UPDATE
SET (layout, model, dimension) = (excluded.layout, excluded.model, excluded.dimension)
"""


class Registered(NamedTuple):
    """What the registry says of a table."""

    layout: int
    model: str | None
    dimension: int | None


@dataclass(frozen=True, slots=True)
class Table:
    """A table of a store, and how it is made.

    Args:
        schema: The Postgres schema that it is in.
        name: Its name there.
        make: Makes it, inside the transaction that holds the lock.
        model, dimension: Of its vectors, if it has some.
    """

    schema: str
    name: str
    make: Callable[[Connection], Awaitable[None]]
    model: str | None = None
    dimension: int | None = None

    @property
    def identifier(self) -> sql.Identifier:
        """Its full name; nothing depends on the search path of a session."""
        return sql.Identifier(self.schema, self.name)

    @property
    def registry(self) -> sql.Identifier:
        """Full name of the registry that has a row of it."""
        return sql.Identifier(self.schema, "memcore_tables")

    def check(self, found: Registered) -> None:
        """Refuse what the registry says, if it is not for this version, or not for this store.

        Raises:
            ConfigurationError: A newer version made it.
            ModelMismatch: It holds something else.
        """
        if found.layout > LAYOUT:
            raise ConfigurationError(
                f"table {self.schema}.{self.name} has layout {found.layout}, and this version of memcore "
                f"knows layouts up to {LAYOUT}; install a newer one"
            )
        if found[1:] != (self.model, self.dimension):
            raise ModelMismatch(
                f"table {self.schema}.{self.name} holds {_content(*found[1:])}, not "
                f"{_content(self.model, self.dimension)}; open it as that, or give another table or schema"
            )


def _content(model: str | None, dimension: int | None) -> str:
    return "no vectors" if model is None else f"vectors of model {model!r} and dimension {dimension}"


async def set_up(database: Database, operation: str, table: Table) -> Registered:
    """Make a table that is not there yet; what the registry says of it.

    Raises:
        ConfigurationError: The server, or the rights of its user, do not allow it; says what to do.
    """
    call = database.call(operation)
    found = await database.run(call, lambda connection: _registered(connection, call.operation, table))
    if found is not None:
        return found
    try:
        return await _made(database, operation, table)
    except StoreUnavailable as error:
        if not isinstance(error.__cause__, _RACED):
            raise _refused(operation, table, error) from error
    # Somebody without our lock made the schema or the extension at the same time; nothing of ours was kept.
    return await _made(database, operation, table)


async def _made(database: Database, operation: str, table: Table) -> Registered:
    call = database.call(operation, SET_UP_SECONDS)
    return await database.run(call, lambda connection: _make(connection, table))


def statements(package: str, name: str, **parts: sql.Composable) -> bytes:
    """The SQL file of this name in a package, with parts such as the table's name put in."""
    return query((files(package) / name).read_text(encoding="utf-8"), **parts)


def query(text: str, **parts: sql.Composable) -> bytes:
    """A query with names of tables and the like put in where they stand in braces."""
    quoted = {name: _quoted(part) for name, part in parts.items()}
    # The text is of this distribution, not something that a user gave.
    return sql.SQL(text).format(**quoted).as_bytes(None)


def _quoted(part: sql.Composable) -> sql.Composable:
    # A percent sign in a name is no placeholder.
    return sql.SQL(part.as_string(None).replace("%", "%%")) if isinstance(part, sql.Identifier) else part


def name_of(operation: str, argument: str, value: object) -> str:
    """A name that Postgres takes as it is: at most 63 bytes, or it would be cut without an error."""
    text = guards.identifier(operation, argument, value)
    if len(text.encode()) > MAX_NAME_BYTES:
        raise InvalidArgument(operation, argument, value, f"is longer than {MAX_NAME_BYTES} bytes")
    return text


async def _registered(connection: Connection, operation: str, table: Table) -> Registered | None:
    """What the registry says."""
    ((encoding,),) = await connection.fetch("SELECT pg_catalog.getdatabaseencoding()::text", {})
    if encoding != "UTF8":
        raise ConfigurationError(
            f"{operation}: this database is encoded in {encoding}, which cannot hold every text; make one "
            "with CREATE DATABASE … ENCODING 'UTF8' TEMPLATE template0"
        )
    try:
        return await _row(connection, table)
    except (errors.UndefinedTable, errors.InvalidSchemaName):
        return None


async def _row(connection: Connection, table: Table) -> Registered | None:
    select = query(_SELECT, registry=table.registry)
    rows = await connection.fetch(select, [table.name, table.schema, table.name])
    return Registered(*rows[0]) if rows else None


async def _make(connection: Connection, table: Table) -> Registered:
    async with connection.transaction():
        await connection.run(_BEGIN)
        await connection.execute("SELECT pg_advisory_xact_lock(%s)", [LOCK])
        if not await _exists(connection, table):
            await connection.run(query("CREATE SCHEMA {schema}", schema=sql.Identifier(table.schema)))
        await connection.run(statements(__package__, "registry.sql", registry=table.registry))
        found = await _row(connection, table)
        if found is None:
            # Otherwise another process made it while this one waited.
            await table.make(connection)
            found = Registered(LAYOUT, table.model, table.dimension)
            await _register(connection, table, found)
    return found


async def _register(connection: Connection, table: Table, found: Registered) -> None:
    await connection.execute(query(_INSERT, registry=table.registry), [table.name, *found])


async def _exists(connection: Connection, table: Table) -> bool:
    # CREATE SCHEMA IF NOT EXISTS asks for the right to create one even where it exists.
    return bool(
        await connection.fetch("SELECT 1 FROM pg_catalog.pg_namespace WHERE nspname = %s", [table.schema])
    )


def _refused(operation: str, table: Table, error: StoreUnavailable) -> MemcoreError:
    cause, place = error.__cause__, f"{table.schema}.{table.name}"
    if isinstance(cause, errors.InsufficientPrivilege):
        return ConfigurationError(
            f"{operation}: table {place} is not there, and the user of the connection may not make it "
            f"({sentence(cause)}); grant CREATE, or open the store once as a user who may"
        )
    if isinstance(cause, errors.DuplicateTable):
        return ConfigurationError(
            f"{operation}: table {place} is there and was not made by memcore; rename it, or give the store "
            "another schema"
        )
    return error
