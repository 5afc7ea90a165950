"""What stores on Postgres share: connections, calls in time, and tables that set themselves up."""

from memcore.postgres.database import MAX_CONNECTIONS, TIMEOUT_SECONDS, Database

__all__ = ["MAX_CONNECTIONS", "TIMEOUT_SECONDS", "Database"]
