# Made by docs/generate.py of the functions; do not edit.

from builtins import bool as _bool, int as _int, str as _str, tuple as _tuple
from collections.abc import Sequence as _Sequence
from enum import Enum as _Enum
from ftrace import Array as _Array
from ftrace.lax import Precision as _Precision
from ftrace.typing import ArrayLike as _ArrayLike
from typing import Any

class ResizeMethod(_Enum):
    NEAREST = 0
    LINEAR = 1
    LANCZOS3 = 2
    LANCZOS5 = 3
    CUBIC = 4
    CUBIC_PYTORCH = 5
    AREA = 6
def resize(image: _ArrayLike, shape: _Sequence[_int], method: _str | ResizeMethod, antialias: _bool = True, precision: _Precision | _str | _tuple[Any, Any] | None = ...) -> _Array: ...
def scale_and_translate(image: _ArrayLike, shape: _Sequence[_int], spatial_dims: _Sequence[_int], scale: _ArrayLike, translation: _ArrayLike, method: _str | ResizeMethod, antialias: _bool = True, precision: _Precision | _str | _tuple[Any, Any] | None = ...) -> _Array: ...
