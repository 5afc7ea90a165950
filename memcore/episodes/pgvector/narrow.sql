-- Vectors fit into index rows: exact search reads one range of this index and nothing else.
CREATE INDEX ON {table} (user_key) INCLUDE (seq, v)
