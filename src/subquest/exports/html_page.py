"""An answer as one HTML page without scripts: citations link to the list of sources."""

from __future__ import annotations

from html import escape

from ..record import Episode, Report, Section
from .markdown import answer_text, cited, sources_of, support_line

_STYLE = (
    "body{font:16px/1.55 system-ui,sans-serif;max-width:44rem;margin:2rem auto;padding:0 1rem;color:#1c1c1e}"
    "h1{line-height:1.2}q{color:#444}li{margin:.5rem 0}.missing{color:#666;font-style:italic}"
    "@media(prefers-color-scheme:dark){body{background:#1c1c1e;color:#eee}q,.missing{color:#bbb}a{color:#8ab4ff}}"
)


def to_html(episode: Episode) -> str:
    """A whole page. Text of documents and models is escaped: it cannot act as markup."""
    report = episode.report or Report("short")
    title = escape(report.title or episode.question.question)
    body = "".join(map(_section, report.sections)) or f"<p>{escape(answer_text(episode))}</p>"
    if note := support_line(episode):
        body += f'<p class="missing">{escape(note)}</p>'
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">"
        f'<meta name="viewport" content="width=device-width, initial-scale=1"><title>{title}</title>'
        f"<style>{_STYLE}</style></head><body><h1>{title}</h1>{body}{_sources(episode)}</body></html>\n"
    )


def _section(section: Section) -> str:
    sentences = []
    for sentence in section.sentences:
        words, marks, ending = cited(sentence, '<a href="#source-{0}">[{0}]</a>')
        sentences.append(f"{escape(words)}{marks}{escape(ending)}")
    heading = f"<h2>{escape(section.title)}</h2>" if section.title else ""
    if sentences:
        return f"{heading}<p>{' '.join(sentences)}</p>"
    return f'{heading}<p class="missing">{escape(section.missing[:1].upper() + section.missing[1:])}.</p>'


def _sources(episode: Episode) -> str:
    items = []
    for number, (where, quote, mark) in enumerate(sources_of(episode.evidence), 1):
        items.append(f'<li id="source-{number}">{escape(where)}: <q>{escape(quote)}</q>{mark}</li>')
    return f"<h2>Sources</h2><ol>{''.join(items)}</ol>" if items else ""
