"""From what the checks saw to verdicts, and from verdicts to a table and a file."""
