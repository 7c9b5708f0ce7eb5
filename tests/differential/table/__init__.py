"""The table of every public function, a file for each family of modules."""

from collections import Counter
from dataclasses import replace

from tests.differential.rows import Row
from tests.differential.table import (
    collectives,
    devices,
    experimental,
    functions,
    interpreters,
    lax,
    linear,
    numpy,
    session,
    transforms,
)


def _numbered(rows: list[Row]) -> list[Row]:
    """Rows of the same name are told apart by a number."""
    seen: Counter[str] = Counter()
    result: list[Row] = []
    for row in rows:
        seen[row.name] += 1
        result.append(replace(row, variant=seen[row.name]))
    return result


ROWS: list[Row] = _numbered(
    [
        *numpy.ROWS,
        *lax.ROWS,
        *linear.ROWS,
        *functions.ROWS,
        *transforms.ROWS,
        *collectives.ROWS,
        *experimental.ROWS,
        *session.ROWS,
        *interpreters.ROWS,
        *devices.ROWS,
    ]
)
