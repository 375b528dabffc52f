"""The server: agents, runs and indexes over HTTP, for people (a page), programs (OpenAI's protocol) and models (MCP).

    app                assembles the server and runs it
    settings           what a server may do, and for whom
    access             host, origin, token and rate checks
    routes             every path with its handler, and the OpenAPI document
    *_handlers, chat   the handlers: episodes and runs, search, OpenAI's chat completions
    agents, indexes    the systems, models and indexes that the server offers
    jobs, replay       questions being answered; the log from which an interrupted one is resumed
    run_library        stored runs
    mcp                the MCP server

Handlers check requests and shape replies; the work is done by the modules they call.
"""
