# Made by docs/generate.py of the functions; do not edit.

from builtins import float as _float, str as _str, tuple as _tuple
from collections.abc import Callable as _Callable, Mapping as _Mapping
from ftrace import Array as _Array
from ftrace.typing import ArrayLike as _ArrayLike
from typing import Any, NamedTuple as _NamedTuple

class OptimizeResults(_NamedTuple):
    x: _Array
    success: _Array
    status: _Array
    fun: _Array
    jac: _Array
    hess_inv: _Array | None
    nfev: _Array
    njev: _Array
    nit: _Array
def minimize(fun: _Callable[..., Any], x0: _ArrayLike, args: _tuple[Any, ...] = ..., *, method: _str = 'BFGS', tol: _float | None = None, options: _Mapping[_str, Any] | None = None) -> OptimizeResults: ...
