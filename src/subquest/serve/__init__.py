"""The server: the agents of a folder over HTTP, for people (a page), programs (OpenAI's protocol) and models (MCP).

    settings   what a server may do, and for whom
    agents     which systems, models and indexes it offers
    jobs       questions being answered: a queue, live events, cancelling
    shelf      runs that were stored
    app        all of it behind one address

Handlers check what comes in and say what goes out; they hold no logic of their own.
"""
