"""What a run shows that the paper does not speak of: a sentence and its numbers, without a verdict."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Observation:
    id: str
    text: str
    evidence: str

    def to_json(self) -> dict[str, Any]:
        return asdict(self)
