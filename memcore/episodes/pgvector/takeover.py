"""Taking over the table of the older schema, which had no session, model or sequence.

Its columns were `id`, `user_id`, `summary`, `embedding` (a `vector`) and `created_at`. Everything happens in
the transaction that makes the new table: either all rows are in it afterwards, or all is as before. Nobody
can use the older table meanwhile, which takes as long as to build an index over its vectors.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias
from uuid import uuid4

from psycopg import errors, sql

from memcore.errors import ConfigurationError, ModelMismatch
from memcore.postgres.connections import Connection
from memcore.postgres.failures import sentence
from memcore.postgres.tables import Table, query, statements

logger = logging.getLogger("memcore.episodes")

COLUMNS = frozenset({"id", "user_id", "summary", "embedding", "created_at"})
UNKNOWN_SESSION = ""
"""Session of the rows that are taken over; none that is remembered can have this id."""
UTC_TIMES = {
    "timestamptz": "older.created_at",
    "timestamp": "older.created_at AT TIME ZONE 'UTC'",
    "date": "older.created_at::timestamp AT TIME ZONE 'UTC'",
}
"""How times of a type are read: those without a zone are taken as UTC."""
Parts: TypeAlias = dict[str, sql.Composable]

_COLUMNS = """
SELECT attname::text, typname::text, atttypmod FROM pg_catalog.pg_attribute
JOIN pg_catalog.pg_type AS t ON t.oid = atttypid
WHERE attrelid = to_regclass(format('%%I.%%I', %s::text, %s::text)) AND attnum > 0 AND NOT attisdropped
"""
# What a copy of the rows would lose, or what is no table.
_KIND = """
SELECT c.relkind = 'r', c.relrowsecurity
    OR EXISTS (SELECT FROM pg_catalog.pg_trigger AS t WHERE t.tgrelid = c.oid AND NOT t.tgisinternal)
    OR EXISTS (SELECT FROM pg_catalog.pg_inherits AS i WHERE c.oid IN (i.inhrelid, i.inhparent))
FROM pg_catalog.pg_class AS c WHERE c.oid = to_regclass(format('%%I.%%I', %s::text, %s::text))
"""
_MOVE = "LOCK TABLE {table} IN ACCESS EXCLUSIVE MODE; ALTER TABLE {table} RENAME TO {aside}"
_INCOMPLETE = "SELECT count(*) FROM {table} WHERE user_id IS NULL OR summary IS NULL OR id IS NULL"
_WITHOUT = "SELECT count(*) FROM {table} WHERE v IS NULL"
_GRANTED = """
SELECT grantee, CASE WHEN grantee = 0 THEN 'PUBLIC' ELSE quote_ident(pg_catalog.pg_get_userbyid(grantee)) END,
    privilege_type, is_grantable
FROM pg_catalog.pg_class, pg_catalog.aclexplode(relacl)
WHERE pg_class.oid = to_regclass(format('%%I.%%I', %s::text, %s::text))
"""
_GRANT = "GRANT {privilege} ON {table} TO {grantee} {option}; GRANT SELECT ON {registry} TO {grantee}"
_INCOMPATIBLE = (errors.DependentObjectsStillExist, errors.UniqueViolation, errors.ProgramLimitExceeded)


class _Column(NamedTuple):
    """Type of a column, and what modifies it: of a `vector`, its dimension."""

    type: str
    modifier: int


@dataclass(frozen=True, slots=True)
class Older:
    """An older table that was moved aside.

    Attributes:
        schema, name: Where it is now.
        created_at: How its times are read.
    """

    schema: str
    name: str
    created_at: str

    @property
    def identifier(self) -> sql.Identifier:
        """Its full name."""
        return sql.Identifier(self.schema, self.name)


async def older_table(connection: Connection, table: Table) -> Older | None:
    """Move the older table out of the place of the new one; `None` if there is none.

    Raises:
        ConfigurationError: Something else is in its place, or it is more than a table of rows.
        ModelMismatch: Its vectors have another dimension.
    """
    rows = await connection.fetch(_COLUMNS, [table.schema, table.name])
    kind = await connection.fetch(_KIND, [table.schema, table.name])
    if not kind:
        return None
    columns = {name: _Column(*column) for name, *column in rows}
    _check(table, columns, is_table=kind[0][0])
    if kind[0][1]:
        raise _not_taken(table, "it has triggers, policies or partitions, which would be lost")
    aside = f"older_{uuid4().hex}"
    await connection.run(query(_MOVE, table=table.identifier, aside=sql.Identifier(aside)))
    return Older(table.schema, aside, UTC_TIMES[columns["created_at"].type])


async def take_over(connection: Connection, table: Table, older: Older, parts: Parts) -> None:
    """Bring all rows and grants over to the new table, and remove the older one.

    Raises:
        ConfigurationError: A row is incomplete, or something else rests on the older table.
    """
    incomplete = await _count(connection, query(_INCOMPLETE, table=older.identifier))
    if incomplete:
        raise _not_taken(table, f"{incomplete} rows have no user_id, no summary or no id")
    more = {
        "older": older.identifier,
        "created_at": sql.SQL(older.created_at),
        "session": sql.Literal(UNKNOWN_SESSION),
    }
    try:
        copied = await connection.run(statements(__package__, "takeover.sql", **parts, **more))
        await _grant(connection, table, older)
        await connection.run(query("DROP TABLE {older}", older=older.identifier))
    except _INCOMPATIBLE as error:
        raise _not_taken(table, sentence(error)) from error
    without = await _count(connection, query(_WITHOUT, **parts))
    _report(table, copied.rowcount, without)


async def _grant(connection: Connection, table: Table, older: Older) -> None:
    """Let whoever could use the older table use the new one."""
    for _, grantee, privilege, grantable in await connection.fetch(_GRANTED, [older.schema, older.name]):
        grant = query(
            _GRANT,
            privilege=sql.SQL(privilege),
            table=table.identifier,
            registry=table.registry,
            grantee=sql.SQL(grantee),
            option=sql.SQL("WITH GRANT OPTION" if grantable else ""),
        )
        await connection.run(grant)


async def _count(connection: Connection, select: bytes) -> int:
    return int((await connection.fetch(select, {}))[0][0])


def _report(table: Table, copied: int, without: int) -> None:
    place = f"{table.schema}.{table.name}"
    logger.info("took over %d episodes of the older table %s", copied, place)
    if without:
        text = "%d episodes of %s have a vector that is zero or missing; they are kept and never recalled"
        logger.warning(text, without, place)


def _check(table: Table, columns: dict[str, _Column], *, is_table: bool) -> None:
    place = f"{table.schema}.{table.name}"
    if {"seq", "user_key", "v"} <= set(columns):
        raise ConfigurationError(
            f"{place} was made by memcore, and its row in memcore_tables is missing; restore that row"
        )
    if not is_table or not _is_older(columns):
        raise ConfigurationError(
            f"{place} is there, and is neither of memcore nor of the older schema, a table with the columns "
            f"{', '.join(sorted(COLUMNS))} (it has {', '.join(sorted(columns))}); rename it, or give the "
            "store another table"
        )
    dimension = columns["embedding"].modifier
    if dimension != table.dimension:
        has = "any dimension" if dimension < 0 else f"dimension {dimension}"
        raise ModelMismatch(
            f"the older table {place} holds vectors of {has} and of a model that it does not name, not of "
            f"{table.model!r} and {table.dimension}; open it with its own, or give the store another table"
        )


def _is_older(columns: dict[str, _Column]) -> bool:
    if set(columns) != COLUMNS:
        return False
    return columns["embedding"].type == "vector" and columns["created_at"].type in UTC_TIMES


def _not_taken(table: Table, reason: str) -> ConfigurationError:
    return ConfigurationError(
        f"the older table {table.schema}.{table.name} cannot be taken over ({reason}); put that right, or "
        "give the store another table"
    )
