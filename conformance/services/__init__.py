"""Where a real server for the tests comes from: one that a variable names, or one started for the run."""

from conformance.services.postgres import PG_URL, postgres_server
from conformance.services.redis import REDIS_URL, redis_server
from conformance.services.server import Server, ServerUnavailable, masked

__all__ = ["PG_URL", "REDIS_URL", "Server", "ServerUnavailable", "masked", "postgres_server", "redis_server"]
