"""Hard questions answered by decoupled planning and execution."""

from ._version import __version__

__all__ = ["__version__"]
