# Made by docs/generate.py of the functions; do not edit.

from builtins import int as _int, str as _str
from collections.abc import Sequence as _Sequence
from ftrace import Array as _Array
from ftrace.typing import ArrayLike as _ArrayLike

def map_coordinates(input: _ArrayLike, coordinates: _Sequence[_ArrayLike], order: _int, mode: _str = 'constant', cval: _ArrayLike = 0.0) -> _Array: ...
