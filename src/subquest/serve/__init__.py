"""The server: agents, runs and indexes over HTTP, for people (a page), programs (OpenAI's protocol) and models (MCP).

app, state                       assembles the server and runs it; what all handlers share
settings, model_settings         what a server may do, and for whom; the model that is set on the page
access, connection               host, origin, token and rate checks; clients that stop in the middle
routes, openapi                  every path with its handler, and the OpenAPI document
requests, replies, sse           what is sent and replied, and events as they happen
*_handlers, chat                 the handlers: questions and runs, search, files, the model, OpenAI's chat completions
agents, indexes, kept_files      the systems, models and indexes that the server offers, and files added to them
jobs, replay                     questions being answered; the log from which an interrupted one is resumed
batching, search_worker          many searches at once, in processes of their own
run_library, episode_view        stored runs, and what the page shows of an episode
compare, question_matrix         runs beside each other, question by question
counters, loop_watch             what was done, counted; a server that hangs
mcp                              the MCP server

Handlers check requests and shape replies; the work is done by the modules they call.
"""
