"""A trace as one HTML file: the page, its style and the episode in it, to be opened anywhere without a server."""

from __future__ import annotations

from ..record import Episode
from .bodies import json_bytes
from .settings import STATIC
from .shelf import ended, shown


def as_html(episode: Episode) -> str:
    """The file's text. The episode is data in a script element; `<` cannot end it, because it is written `\\u003c`."""
    script = (STATIC / "assets" / "app.js").read_text(encoding="utf-8").replace("</script", "<\\/script")
    style = (STATIC / "assets" / "app.css").read_text(encoding="utf-8")
    data = json_bytes({**shown(episode), "status": ended(episode)}).decode().replace("<", "\\u003c")
    policy = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:"
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1"><title>Subquest trace</title>'
        f'<style>{style}</style></head><body><div id="app"></div>'
        f'<script type="application/json" id="episode">{data}</script>'
        f'<script type="module">{script}</script></body></html>\n'
    )
