"""What agents act with beside an index: web search, pages, a Python sandbox, files and media, and what may leave.

Each module stands alone and knows records and errors only; `systems.toolkit` puts them together for one run.
"""
