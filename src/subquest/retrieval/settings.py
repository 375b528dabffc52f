"""What an index is made with: the same for a folder, an exported file and a backend."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from ..errors import DataError
from ..record import Document
from .analysis import Analysis
from .bm25 import BM25
from .encoder import EncoderSpec
from .fusion import Fusion

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Row = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Settings:
    """How text becomes terms and vectors and how they are scored; queries must be treated as the passages were."""

    analysis: Analysis = field(default_factory=Analysis)
    bm25: BM25 = field(default_factory=BM25)
    fusion: Fusion = field(default_factory=Fusion)
    encoder: EncoderSpec | None = None
    """None where passages have no vectors."""
    width: int = 0
    """Numbers in a vector; 0 without an encoder."""
    average: float = 0.0
    """Mean number of terms of a passage where the settings were taken; 0 where that is not known."""

    def to_record(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    @classmethod
    def from_record(cls, record: Any, where: str) -> Settings:
        """From `to_record`'s form; `where` names the place in errors."""
        try:
            encoder = record["encoder"]
            return cls(
                Analysis.recorded(record["analysis"]),
                BM25(**record["bm25"]),
                Fusion(**record["fusion"]),
                None if encoder is None else EncoderSpec(**encoder),
                int(record["width"]),
                float(record["average"]),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise DataError(f"{where}: the settings are not those of an index of this version ({error!r})") from None

    def differences(self, other: Settings) -> str:
        """What makes vectors and terms of the two unfit for one index, in words; empty where nothing does."""
        pairs = ((name, getattr(self, name), getattr(other, name)) for name in ("analysis", "bm25", "encoder", "width"))
        return "; ".join(f"{name} {mine}, not {theirs}" for name, mine, theirs in pairs if mine != theirs)


class Entry(NamedTuple):
    """A passage with its vector, as it travels between indexes."""

    document: Document
    vector: Row | None = None
