"""Real servers for the project's own tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from conformance.services import Server, postgres_server, redis_server
from tests.postgres_help import fresh, sql, with_place

pytest_plugins = ["pytester"]


@pytest.fixture(scope="session")
def redis_url() -> Iterator[str]:
    """A Redis that all tests share; each takes a prefix of its own."""
    with redis_server() as server:
        yield server.url


@pytest.fixture
def own_redis() -> Iterator[Server]:
    """A Redis that one test may stop, starve or turn into a replica."""
    with redis_server({"MEMCORE_SERVERS": "embedded"}) as server:
        yield server


@pytest.fixture(scope="session")
def postgres_url() -> Iterator[str]:
    """A Postgres with pgvector that all tests share; each takes a schema of its own."""
    with postgres_server() as server:
        yield server.url


@pytest.fixture
def database_url(postgres_url: str) -> Iterator[str]:
    """A database of its own on that server, without any extension."""
    name = fresh("memcore_test")
    # From the bare template: that of the server may have extensions.
    sql(postgres_url, f"CREATE DATABASE {name} TEMPLATE template0 ENCODING 'UTF8'")
    yield with_place(postgres_url, database=name)
    sql(postgres_url, f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture
def role(postgres_url: str) -> Iterator[str]:
    """A user of the server, without rights; the name is the password too."""
    name = fresh("memcore_role")
    sql(postgres_url, f"CREATE ROLE {name} LOGIN PASSWORD '{name}'")
    yield name
    sql(postgres_url, f"DROP OWNED BY {name}")
    sql(postgres_url, f"DROP ROLE {name}")
