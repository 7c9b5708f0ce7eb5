"""The table of every public function, a file for each family of modules."""

from tests.differential.rows import Row
from tests.differential.table import numpy

ROWS: list[Row] = [*numpy.ROWS]
