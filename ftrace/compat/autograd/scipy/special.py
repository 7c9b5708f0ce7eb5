"""Special functions; those that ftrace lacks have SciPy's values and a slope here.

Slopes of Bessel functions: M. Abramowitz, I. Stegun, 9.1.27, 9.6.26.
"""

# What users give and get is of any type.
# pyright: basic

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as onp

import ftrace.scipy.special as ours
from ftrace.compat.autograd import numpy as np
from ftrace.compat.autograd.core import Primitive, defjvp, defvjp, repeat_slope
from ftrace.compat.autograd.lift import lift, namespace

_find = namespace(__name__, "scipy.special", "ftrace.scipy.special")


def _function(name: str) -> Any:
    """One of this module, made when it is needed."""
    return globals()[name] if name in globals() else __getattr__(name)


def _bessel(name: str, sign: int) -> Callable[..., Any]:
    def slope(ans: Any, n: Any, x: Any) -> Any:
        function = _function(name)
        return (function(n - 1, x) + sign * function(n + 1, x)) / 2

    return slope


def _ive_slope(ans: Any, n: Any, x: Any) -> Any:
    return _bessel("ive", 1)(ans, n, x) - ans * np.sign(x)


#: Function -> its slope by its last argument, of its value and its arguments.
_SLOPES: dict[str, Callable[..., Any]] = {
    "j0": lambda ans, x: -_function("j1")(x),
    "y0": lambda ans, x: -_function("y1")(x),
    "j1": lambda ans, x: (_function("j0")(x) - _function("jn")(2, x)) / 2,
    "y1": lambda ans, x: (_function("y0")(x) - _function("yn")(2, x)) / 2,
    "jn": _bessel("jn", -1),
    "yn": _bessel("yn", -1),
    "iv": _bessel("iv", 1),
    "ive": _ive_slope,
    "erfcinv": lambda ans, x: -0.5 * onp.sqrt(onp.pi) * np.exp(ans**2),
}


def _with_slope(name: str, slope: Callable[..., Any]) -> Primitive:
    function = Primitive(getattr(_scipy(), name))

    def pull(ans: Any, *args: Any) -> Callable[[Any], Any]:
        return repeat_slope(ans, args[-1], slope(ans, *args))

    last = (1 if name in ("jn", "yn", "iv", "ive") else 0,)
    defvjp(function, pull, argnums=last)
    defjvp(function, lambda g, ans, *args: g * slope(ans, *args), argnums=last)
    return function


def _scipy() -> Any:
    from scipy import special

    return special


def __getattr__(name: str) -> Any:
    if name in _SLOPES:
        found: Any = _with_slope(name, _SLOPES[name])
    elif name == "psi":
        found = _find("digamma")
    elif name == "rgamma":
        found = lift("scipy", name, _scipy().rgamma, lambda x: 1 / ours.gamma(x))
    else:
        return _find(name)
    globals()[name] = found
    return found
