"""The one place where errors of the driver and the server become ours: a sentence that says what to do."""

from __future__ import annotations

import psycopg
from psycopg import errors

from memcore.errors import MemcoreError, StoreCorrupt, StoreUnavailable

LATE = errors.DivisionByZero
"""How a write says that it is too late."""
_LAYOUT = (
    errors.UndefinedTable,
    errors.UndefinedColumn,
    errors.UndefinedFunction,
    errors.UndefinedObject,
    errors.InvalidSchemaName,
    errors.DatatypeMismatch,
    errors.WrongObjectType,
)


def translated(operation: str, error: Exception, seconds: float) -> MemcoreError:
    """The error for what the driver raised in a call that may take so many seconds."""
    if isinstance(error, TimeoutError):
        return StoreUnavailable(f"{operation}: Postgres gave no answer within {seconds:g} s")
    if isinstance(error, LATE):
        return StoreUnavailable(f"{operation}: Postgres got to it too late, and did nothing")
    if isinstance(error, errors.ReadOnlySqlTransaction):
        return StoreUnavailable(
            f"{operation}: this Postgres is read-only (a replica, or default_transaction_read_only is on); "
            "give the address of the primary"
        )
    if isinstance(error, errors.QueryCanceled):
        return StoreUnavailable(
            f"{operation}: Postgres ended the statement ({sentence(error)}); raise the server's "
            "statement_timeout, or find out what it waited for"
        )
    if isinstance(error, errors.InsufficientPrivilege):
        return StoreUnavailable(
            f"{operation}: Postgres refused ({sentence(error)}); grant it to the user of the connection"
        )
    if isinstance(error, _LAYOUT):
        return StoreCorrupt(
            f"{operation}: the tables are not as this version of memcore made them ({sentence(error)}); "
            "restore them, or open a new store, which sets up what is missing"
        )
    if isinstance(error, psycopg.DataError) and not error.sqlstate:
        return StoreCorrupt(f"{operation}: a row has what this version cannot read: {sentence(error)}")
    if isinstance(error, psycopg.Error) and (error.sqlstate or "FATAL" in str(error)):
        return StoreUnavailable(f"{operation}: Postgres refused: {sentence(error)}")
    if isinstance(error, psycopg.Error | OSError):
        return StoreUnavailable(f"{operation}: Postgres does not answer: {sentence(error)}")
    # Nobody who has to do with stores alone expects anything else.
    return StoreUnavailable(f"{operation}: {error!r}")


def sentence(error: Exception) -> str:
    """What an error says, in one line; not its details, which may hold what is stored."""
    text = str(error)
    if isinstance(error, psycopg.Error) and error.diag.message_primary:
        text = ". ".join(filter(None, (error.diag.message_primary, error.diag.message_hint)))
    return " ".join(text.split()).rstrip(".") or type(error).__name__
