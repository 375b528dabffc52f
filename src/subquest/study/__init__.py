"""Studies: the experiments behind the papers' tables and figures, to be run on any model."""

from .recipe import Number, Source, Study, Variant, find_study, read_study, studies
from .result import Row, rows

__all__ = ["Number", "Row", "Source", "Study", "Variant", "find_study", "read_study", "rows", "studies"]
