"""A conformance kit for agent-memory backends: what they promise, checked clause by clause."""
