"""Reports: runs as one page that needs nothing but a browser, and as tables for papers."""

from .content import Content, load
from .curves import Curves, is_training
from .page import page
from .text import latex, markdown

__all__ = ["Content", "Curves", "is_training", "latex", "load", "markdown", "page"]
