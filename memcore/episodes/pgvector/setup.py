"""How the table of episodes is made, and what the extension has to be."""

from __future__ import annotations

import re

from psycopg import errors, sql

from memcore.episodes.pgvector.takeover import Parts, older_table, take_over
from memcore.errors import ConfigurationError
from memcore.postgres.connections import Connection
from memcore.postgres.failures import sentence
from memcore.postgres.tables import Table, query, statements

LEAST_VERSION = (0, 8)
"""Of pgvector: iterative scans, without which an index search of one user's rows finds too few."""
NARROW = 1300
"""Up to so many dimensions a vector fits into a row of an index (2,704 bytes)."""

_EXTENSION = """
SELECT n.nspname::text, e.extversion FROM pg_catalog.pg_extension AS e
JOIN pg_catalog.pg_namespace AS n ON n.oid = e.extnamespace WHERE e.extname = 'vector'
"""


async def extension_schema(connection: Connection) -> sql.Identifier:
    """The schema that pgvector is in, which need not be on anyone's search path.

    Raises:
        ConfigurationError: It is not installed, or too old.
    """
    rows = await connection.fetch(_EXTENSION, {})
    if not rows:
        raise ConfigurationError(
            "the extension pgvector is not installed in this database; run CREATE EXTENSION vector"
        )
    schema, version = rows[0]
    if tuple(map(int, re.findall(r"\d+", version)[:2])) < LEAST_VERSION:
        least = ".".join(map(str, LEAST_VERSION))
        raise ConfigurationError(
            f"pgvector {version} is too old, {least} is needed (half precision, iterative scans); install a "
            "newer one on the server and run ALTER EXTENSION vector UPDATE"
        )
    return sql.Identifier(schema)


async def make(connection: Connection, table: Table) -> None:
    """Make the table, or turn the older one that is in its place into it; part of a transaction.

    Raises:
        ConfigurationError: The extension, or what is in the table's place, is not what it has to be.
        ModelMismatch: An older table has vectors of another dimension.
    """
    await _create_extension(connection, table)
    assert table.dimension is not None
    parts: Parts = {
        "table": table.identifier,
        "vectors": await extension_schema(connection),
        "dimension": sql.Literal(table.dimension),
    }
    older = await older_table(connection, table)
    await connection.run(statements(__package__, "table.sql", **parts))
    layout = "narrow.sql" if table.dimension <= NARROW else "wide.sql"
    await connection.run(statements(__package__, layout, **parts))
    if older is not None:
        await take_over(connection, table, older, parts)
    # Last, for an index over rows that are there is built much faster than it grows.
    await connection.run(statements(__package__, "approximate.sql", **parts))


async def _create_extension(connection: Connection, table: Table) -> None:
    # It belongs to the whole database: not into the schema of one store, unless there is no other.
    public = await connection.fetch("SELECT 1 FROM pg_catalog.pg_namespace WHERE nspname = 'public'", {})
    schema = sql.Identifier("public" if public else table.schema)
    try:
        await connection.run(query("CREATE EXTENSION IF NOT EXISTS vector SCHEMA {schema}", schema=schema))
    except errors.InsufficientPrivilege as error:
        raise ConfigurationError(
            "pgvector is not installed in this database, and the user of the connection may not install it "
            f"({sentence(error)}); have a superuser run CREATE EXTENSION vector"
        ) from error
    except (errors.UndefinedFile, errors.FeatureNotSupported) as error:
        raise ConfigurationError(
            f"this server does not have pgvector ({sentence(error)}); install it there, or use an image such "
            "as pgvector/pgvector:pg18"
        ) from error
