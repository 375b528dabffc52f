"""What agents use beside an index: web search, pages, a Python sandbox, files and media, and the egress rules.

`runtime.toolkit` combines them for one run.
"""
