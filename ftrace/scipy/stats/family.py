'''How distributions are declared: by formulas for location 0 and scale 1.

    @distribution("logpdf cdf sf", support=(0, inf), logpdf=…, cdf=lambda z, a: …)
    def gamma(a) -> None:
        """the gamma distribution of shape a.

        0.5, 2.0 -> cdf 0.090204, logpdf -1.1931472, pdf 0.30326533, sf 0.909796
        """

The function in whose place it is has the name, the shape parameters, and in words what
the distribution is; behind that an example: operands, and the value of each function of
them (of quantiles, at 0.25).

What is not given follows: `pdf` from `logpdf`, `logcdf` from `cdf`, `sf` from `cdf` by
symmetry or as what is left of 1, and so on. Outside of the support a density is 0;
below it `cdf` is 0 and above it 1. A distribution is a module without a file, as
`ftrace.scipy.stats.gamma`: `import ftrace.scipy.stats.gamma` finds it.
'''

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from functools import partial
from importlib.machinery import ModuleSpec
from inspect import Parameter, Signature, signature
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

import ftrace.numpy as fnp
from ftrace import dtypes
from ftrace.ground.fast_dataclasses import dataclass
from ftrace.lax.gammas import run_wide
from ftrace.numpy.axes import cast, choose
from ftrace.numpy.elementwise import promote_inexact, refuse_complex
from ftrace.trace.bind import broadcast_shapes
from ftrace.trace.eager.dispatch import publish
from ftrace.trace.eager.function_objects import set_name

Formula = Callable[..., Any]
PACKAGE = "ftrace.scipy.stats"

#: What each function is, and its first parameter.
DOCS = {
    "pdf": ("The density of", "x"),
    "logpdf": ("The logarithm of the density of", "x"),
    "pmf": ("The probability of k under", "k"),
    "logpmf": ("The logarithm of the probability of k under", "k"),
    "cdf": ("The probability of a value up to x under", "x"),
    "logcdf": ("The logarithm of the probability of a value up to x under", "x"),
    "sf": ("The probability of a value beyond x under", "x"),
    "logsf": ("The logarithm of the probability of a value beyond x under", "x"),
    "ppf": ("The value up to which the probability is q, under", "q"),
    "isf": ("The value beyond which the probability is q, under", "q"),
    "entropy": ("The entropy of", ""),
}


QUANTILES = ("ppf", "isf")
EXPONENTIALS = {"logpdf": "pdf", "logpmf": "pmf"}


class Distribution(ModuleType):
    """A module of the functions of one distribution."""

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Callable[..., Any]: ...


#: By "distribution.function": its formula, of all of its parameters.
FORMULAS: dict[str, Formula] = {}


def _evaluate(*operands: Any, of: str) -> Any:
    return FORMULAS[of](*operands)


def _install(
    said: Formula, functions: dict[str, tuple[Signature, Formula]], wide: str = ""
) -> Distribution:
    """A module of functions, which promote their operands to one float dtype."""
    made: dict[str, Formula] = {}
    name = said.__name__  # alone there where Python strips docstrings
    about, _, example = (said.__doc__ or name).partition(".\n\n")
    for log, plain in EXPONENTIALS.items():
        if log in functions:
            signature, formula = functions[log]
            functions[plain] = signature, _exponential(formula)
    for function, (signature, formula) in functions.items():
        FORMULAS[f"{name}.{function}"] = formula
        doc = f"{DOCS[function][0]} {about}"
        is_wide = function in wide.split()
        shown = example and _example(name, function, example, is_wide)
        made[function] = _function(name, function, signature, (doc, shown), is_wide)
    return functions_of(name, about, **made)


def functions_of(name: str, about: str, **functions: Formula) -> Distribution:
    """A module of functions, and exponentials of those that are logarithms."""
    for log, plain in EXPONENTIALS.items():
        if log in functions and plain not in functions:
            functions[plain] = made = _exponential(functions[log])
            vars(made)["__signature__"] = signature(functions[log])
            made.__doc__ = f"{DOCS[plain][0]} {about}: see `{log}`."
    module = Distribution(f"{PACKAGE}.{name}", f"{about[0].upper()}{about[1:]}.")
    module.__spec__ = ModuleSpec(module.__name__, None)
    sys.modules[module.__name__] = module
    for function_name, function in functions.items():
        set_name(function, function_name, function.__doc__)
        function.__module__ = module.__name__
        setattr(module, function_name, function)
    vars(module)["__all__"] = sorted(functions)
    publish(
        module.__name__, (module.__name__,), operands=dict.fromkeys(functions, (float,))
    )
    return module


def _example(name: str, function: str, example: str, wide: bool) -> str:
    """A call of one of the functions, of which an example tells the values of all."""
    given, _, values = " ".join(example.split()).partition(" -> ")
    first, *shapes = given.split(", ")
    first = "0.25" if function in QUANTILES else first
    operands = ", ".join([first, *shapes] if DOCS[function][1] else shapes)
    value = dict(row.split() for row in values.split(", "))[function]
    weak = "" if wide else ", weak_type=True"
    return (
        f">>> from ftrace.scipy.stats import {name}\n"
        f"          >>> {name}.{function}({operands})\n"
        f"          Array({value}, dtype=float32{weak})"
    )


def _exponential(function: Formula) -> Formula:
    def exponential(*args: Any, **kwargs: Any) -> Any:
        return fnp.exp(function(*args, **kwargs))

    return exponential


def _function(
    distribution: str,
    name: str,
    parameters: Signature,
    doc: tuple[str, str],
    wide: bool,
) -> Callable[..., Any]:
    key = f"{distribution}.{name}"

    def call(*args: Any, **kwargs: Any) -> Any:
        """{0}.

        Args:
          {1}: real numbers, or arrays of them, which broadcast; integers become floats.
            `loc` moves the distribution, `scale` stretches it, where it has
            them.

        Returns:
          Of a float dtype, and of the shape to which they broadcast; NaN where there is
          no such distribution.

        Raises:
          DtypeError: one is complex.
          ShapeError: they do not broadcast.

        Example:
          {2}
        """
        try:
            given = parameters.bind(*args, **kwargs)
        except TypeError as error:
            raise TypeError(f"{key}() {error}") from None
        given.apply_defaults()
        operands = promote_inexact(*given.arguments.values())
        refuse_complex(key, *operands)
        broadcast_shapes(key, [x.shape for x in operands])
        dtype, weak = operands[0].dtype, all(x.weak_type for x in operands)
        if wide:
            default = dtypes.default_dtype("f"), False
            dtype, weak = dtypes.promote((dtype, weak), default)
        return cast(run_wide(_evaluate, operands, of=key), dtype, weak)

    named_all = ", ".join(parameters.parameters)
    made: Any = set_name(
        call, name, (call.__doc__ or "").format(doc[0], named_all, doc[1])
    )
    made.__signature__ = parameters
    return made


def signature_of(first: str, said: Formula, place: str) -> Signature:
    """The operand, shape parameters without defaults, then `loc` and `scale`."""
    kind = Parameter.POSITIONAL_OR_KEYWORD
    names = [*first.split(), *signature(said).parameters]
    parameters = [Parameter(n, kind, annotation="Value") for n in names]
    parameters += [
        Parameter(n, kind, annotation="Value", default=int(n == "scale"))
        for n in place.split()
    ]
    return Signature(parameters, return_annotation=Any)


def distribution(
    functions: str,
    *,
    support: tuple[float, float] | Formula = (-math.inf, math.inf),
    valid: Formula | None = None,
    symmetric: bool = False,
    place: str = "loc scale",
    first: dict[str, str] | None = None,
    wide: str = "",
    **formulas: Formula,
) -> Callable[[Formula], Distribution]:
    """A continuous distribution, in the place of a function that says what it is.

    Args:
      functions: the functions that it has, beside `pdf`.
      support: where the density is not 0: bounds, or a function of the shapes.
      valid: of the shapes and the scale, where the functions are not NaN.
      symmetric: around 0.
      place: "loc scale", or "" for a distribution that has neither.
      first: functions whose first parameter has another name.
      wide: functions whose result is at least of the default dtype of floats.
      formulas: for location 0 and scale 1: of a value, or of a probability, and the
        shapes. Of a symmetric one those of one side are enough, else each of cdf and
        sf, or its logarithm, and each of ppf and isf has to be given.
    """
    family = _Family(support, valid, symmetric, bool(place), formulas)
    names = {name: (first or {}).get(name, DOCS[name][1]) for name in functions.split()}

    def declare(said: Formula) -> Distribution:
        made = {
            name: (signature_of(x, said, place), family.formula(name))
            for name, x in names.items()
        }
        return _install(said, made, wide)

    return declare


#: The probabilities where a support begins.
AT_LOW = {"cdf": 0.0, "sf": 1.0, "logcdf": -math.inf, "logsf": -0.0}


def _other(name: str) -> str:
    """The name of what is left of 1."""
    return name.replace("cdf", "sf") if "cdf" in name else name.replace("sf", "cdf")


@dataclass(frozen=True, eq=False)
class _Family:
    """The formulas of one distribution, given and derived."""

    support: tuple[float, float] | Formula
    valid: Formula | None
    symmetric: bool
    placed: bool
    given: dict[str, Formula]

    def formula(self, name: str) -> Formula:
        """A public function, of all of its parameters."""
        if name == "logpdf":
            return self._log_density
        return partial(self._quantile if name in QUANTILES else self._probability, name)

    def _split(self, parameters: tuple[Any, ...]) -> tuple[Any, Any, Any]:
        """The shape parameters, the location and the scale."""
        if not self.placed:
            return parameters, 0.0, 1.0
        return parameters[:-2], *parameters[-2:]

    def _check(self, value: Any, shapes: Any, scale: Any) -> Any:
        if self.valid is None:
            return value
        return choose(self.valid(*shapes, scale), value, np.nan)

    def _bounds(self, shapes: Any) -> tuple[Any, Any, bool, bool, Any]:
        """Both bounds, which of them there are, and a point within."""
        if callable(self.support):
            low, high = self.support(*shapes)
            return low, high, True, True, low
        low, high = self.support
        inner = low + 1 if high == math.inf else 0.5 * (low + high)
        return low, high, low > -math.inf, high < math.inf, inner

    def _log_density(self, x: Any, *parameters: Any) -> Any:
        shapes, loc, scale = self._split(parameters)
        low, high, has_low, has_high, inner = self._bounds(shapes)
        z = (x - loc) / scale if self.placed else x
        outside = x < loc + low * scale if has_low else False
        if has_high:
            outside = outside | (x > loc + high * scale)
        z = choose(outside, inner, z) if has_low else z
        if has_high:  # which rounding may miss
            z = choose(z > high, high, z)
        value = self.given["logpdf"](z, *shapes)
        value = value - fnp.log(scale) if self.placed else value
        if has_low:
            value = choose(outside, -np.inf, choose(x == x, value, np.nan))
        return self._check(value, shapes, scale)

    def _probability(self, name: str, x: Any, *parameters: Any) -> Any:
        shapes, loc, scale = self._split(parameters)
        low, high, has_low, has_high, inner = self._bounds(shapes)
        z = (x - loc) / scale if self.placed else x
        within = z
        if has_low:
            # At the bounds slopes may be infinite: outside, those of a point within.
            z = choose(scale < 0, math.nan, z)
            within = choose((z < low) | (z > high), inner, z)
        value = self._standard(name, within, shapes)
        known = value == value  # of shapes that there are
        if has_low:
            value = choose((z < low) & known, AT_LOW[name], value)
        if has_high:
            value = choose((z > high) & known, AT_LOW[_other(name)], value)
        return self._check(value, shapes, scale)

    def _standard(self, name: str, z: Any, shapes: Any) -> Any:
        """cdf, sf or the logarithm of one of them."""
        if name in self.given:
            return self.given[name](z, *shapes)
        other = _other(name)
        if self.symmetric and other in self.given:
            return self._standard(other, -z, shapes)
        if not name.startswith("log"):
            return fnp.exp(self._standard(f"log{name}", z, shapes))
        # The logarithm of what is nearly 1 is taken of the rest.
        value = self._standard(name[3:], z, shapes)
        rest = self._standard(other[3:], z, shapes)
        small = value < 0.5
        near = fnp.log1p(-choose(small, 0.5, rest))
        return choose(small, fnp.log(choose(small, value, 0.5)), near)

    def _quantile(self, name: str, q: Any, *parameters: Any) -> Any:
        shapes, loc, scale = self._split(parameters)
        inside = (q >= 0) & (q <= 1)
        safe = choose(inside, q, 0.5)
        if name in self.given:
            z = self.given[name](safe, *shapes)
        else:  # isf, of a symmetric one
            z = -self.given["ppf"](safe, *shapes)
        placed = z * scale + loc if self.placed else z
        return self._check(choose(inside, placed, np.nan), shapes, scale)


def discrete(
    *, place: str = "loc", **formulas: Formula
) -> Callable[[Formula], Distribution]:
    """A distribution of whole numbers: `logpmf`, `pmf` and what is given.

    It is in the place of a function that says what it is, as of `distribution`.

    Args:
      place: "loc", or functions that have none, behind it.
      formulas: for location 0; of a whole number, or a probability, and the shapes.
    """
    without = place.split()[1:]

    def at_location(function: str, formula: Formula) -> Formula:
        def shift(k: Any, *rest: Any) -> Any:
            *shapes, loc = rest
            if function == "entropy":  # the same anywhere
                return fnp.broadcast_arrays(formula(k, *shapes), loc)[0]
            return formula(k - loc, *shapes)

        return formula if function in without else shift

    def declare(said: Formula) -> Distribution:
        made: dict[str, tuple[Signature, Formula]] = {}
        for function, formula in formulas.items():
            own = "" if function in without else "loc"
            known = signature_of(DOCS[function][1].replace("x", "k"), said, own)
            made[function] = known, at_location(function, formula)
        return _install(said, made)

    return declare
