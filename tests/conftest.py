"""Real servers for the project's own tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from conformance.services import Server, redis_server

pytest_plugins = ["pytester"]


@pytest.fixture(scope="session")
def redis_url() -> Iterator[str]:
    """A Redis that all tests share; each takes a prefix of its own."""
    with redis_server() as server:
        yield server.url


@pytest.fixture
def own_redis() -> Iterator[Server]:
    """A Redis that one test may stop, starve or turn into a replica."""
    with redis_server({}) as server:
        yield server
