"""The systems that hierarchical ones are measured against, each in a small file with its own protocol."""
