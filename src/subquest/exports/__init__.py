"""Answers as files: Markdown, HTML, DOCX and PDF."""
