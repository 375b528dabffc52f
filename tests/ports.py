"""Ports for servers that cannot be told to choose one themselves."""

import os
import random
import socket

LOWEST, HIGHEST = 20_000, 32_000
"""Below the ports that a system hands out by itself, so that no other connection takes one between asking and use."""


def free_port() -> int:
    """A port that nobody listens on; processes look in different places first."""
    chance = random.Random(os.urandom(8))
    while True:
        port = chance.randrange(LOWEST, HIGHEST)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
