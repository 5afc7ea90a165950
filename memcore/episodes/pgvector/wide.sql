-- Vectors do not fit into index rows: they stay in the rows of the table, where no second look-up is needed.
ALTER TABLE {table} ALTER COLUMN v SET STORAGE PLAIN
