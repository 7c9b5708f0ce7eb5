# Made by docs/generate.py of the functions; do not edit.

from builtins import bool as _bool, tuple as _tuple
from ftrace import Array as _Array
from ftrace.typing import ArrayLike as _ArrayLike

def vq(obs: _ArrayLike, code_book: _ArrayLike, check_finite: _bool = True) -> _tuple[_Array, _Array]: ...
