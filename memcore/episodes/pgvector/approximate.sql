CREATE INDEX ON {table} USING hnsw (v {vectors}.halfvec_cosine_ops)
