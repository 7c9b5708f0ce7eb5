"""The default of an argument that may be None, or anything else."""

from __future__ import annotations

from typing import Any


class _NotGiven:
    def __repr__(self) -> str:
        return "<not given>"


NOT_GIVEN: Any = _NotGiven()
