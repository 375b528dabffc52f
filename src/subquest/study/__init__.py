"""Studies: experiments behind the papers' tables and figures, on any model, and the papers' claims on a small one.

A recipe names *variants* (a system with settings and perhaps an adapter), the questions that they answer, and the rows
of tables with the papers' numbers. Variants without adapters are answered by the user's model into a run; those with
adapters by the model that the recipe trains, into a folder of results from which a page of claims is written.
"""

from .catalog import find_study, studies
from .design import Claim, Row, Source, Study, Training, Variant
from .recipe import read_study
from .table import TableRow, rows

__all__ = [
    "Claim",
    "Row",
    "Source",
    "Study",
    "TableRow",
    "Training",
    "Variant",
    "find_study",
    "read_study",
    "rows",
    "studies",
]
