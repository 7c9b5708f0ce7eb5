"""One function in every way that it can run: what must not depend on the way.

node by node, without jit      the values that all others are held to
at once, jit, every device     the same numbers and dtypes, for the gradient too
from call to call, one thread  the same bits
vmap                           a loop over examples
jvp, vjp                       each other's transposes, and finite differences
Python's numbers               as arguments, tangents and cotangents
float64                        float64 again, where dtypes are those of arguments
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import numpy as np

from ftrace import dtypes, errors
from ftrace.backends.base import get_device, platform_names
from ftrace.ground.fork_safe import cached_property
from ftrace.ground.settings import config, current
from ftrace.numpy import stack
from ftrace.test_util import check_grads, inner_product, numpy_leaves, random_like
from ftrace.testing import close
from ftrace.trace.flatten_arguments import name_of, put
from ftrace.trace.pytree import tree
from ftrace.trace.tiering import JIT_CALLS_BEFORE_RECORD
from ftrace.trace.tracing.scopes import asarray
from ftrace.trace.tracing.tracer import Function
from ftrace.transforms.grad import jvp, vjp
from ftrace.transforms.jit.jit import disable_jit, eval_shape, jit
from ftrace.transforms.structs import ShapeDtypeStruct
from ftrace.transforms.vmap import vmap

#: Calls until one is all native code, and one more.
CALLS: Final = JIT_CALLS_BEFORE_RECORD + 3
#: How many examples `vmap` is given.
LANES: Final = 3


def missing_reason(device: str) -> str | None:
    """Why a device is not there, or None where it is.

    Raises:
      DeviceError: nobody has heard of it.
    """
    errors.one_of(
        "device", device.partition(":")[0], platform_names(), errors.DeviceError
    )
    try:
        get_device(device)
    except errors.DeviceError as error:
        return error.message
    return None


def available_devices() -> list[str]:
    """The names of the devices that can be used in this process, one of a kind.

    Example:
      >>> "interpreter" in ft.testing.available_devices()
      True
    """
    return [name for name in platform_names() if missing_reason(name) is None]


@dataclass(frozen=True)
class Options:
    """How a function is looked at: the arguments of `check` of the same names."""

    devices: Sequence[str]
    modes: Sequence[str]
    rtol: close.Tolerance
    atol: close.Tolerance


@dataclass(frozen=True)
class Subject:
    """A function of arrays, and where it is looked at.

    Attributes:
      name: of the function, for messages.
      function: of `leaves`; what is no array and no float was closed over.
      leaves: arrays, NumPy's scalars, floats and complex numbers.
    """

    name: str
    function: Function
    leaves: tuple[Any, ...]
    options: Options

    @cached_property
    def wanted(self) -> Any:
        """What it gives node by node, without jit."""
        with disable_jit():
            return self.function(*self.leaves)

    def close(self, actual: Any, desired: Any, way: str, **options: Any) -> None:
        __tracebackhide__ = True
        rtol, atol = self.options.rtol, self.options.atol
        scaled = rtol is None and atol is None  # sums may have cancelled
        given: dict[str, Any] = {"rtol": rtol, "atol": atol, "scaled": scaled}
        given |= options
        close.assert_close(actual, desired, err_msg=f"{way} of {self.name}", **given)


def _smooth(subject: Subject) -> Subject | None:
    """Of a function what has derivatives: by floats, of results that are floats."""
    leaves, function = subject.leaves, subject.function
    types = tree.leaves(eval_shape(function, *leaves))
    kept = [i for i, x in enumerate(types) if dtypes.is_inexact(x.dtype)]
    varying = [i for i, x in enumerate(leaves) if dtypes.is_inexact(asarray(x).dtype)]
    if not kept or not varying:
        return None

    def smooth(*leaf: Any) -> list[Any]:  # as messages call them
        results = tree.leaves(function(*put(leaves, varying, leaf)))
        return [results[i] for i in kept]

    smooth.__name__ = smooth.__qualname__ = subject.name
    point = tuple([leaves[i] for i in varying])
    return Subject(subject.name, smooth, point, subject.options)


def _gradient(smooth: Subject) -> Subject:
    """The vjp along one cotangent, as a function of what it is by."""
    cotangents = random_like(smooth.wanted, np.random.default_rng(1))

    def gradient(*point: Any) -> Any:
        return vjp(smooth.function, *point)[1](cotangents)

    return Subject(f"the vjp of {smooth.name}", gradient, smooth.leaves, smooth.options)


# The checks, each of one subject: they raise AssertionError.


def _check_ways(subject: Subject) -> None:
    """At once, under jit, on every device: the numbers of node by node."""
    ways: dict[str, Any] = {"a call": nullcontext(), "jit": nullcontext()}
    ways |= {
        f"jit on {name!r}": config(device=name) for name in subject.options.devices
    }
    for way, scope in ways.items():
        with scope:
            f = subject.function if way == "a call" else _fresh(subject)
            subject.close(f(*subject.leaves), subject.wanted, way)


def _fresh(subject: Subject) -> Function:
    """Under jit, whatever was traced before."""
    return jit(lambda *leaves: subject.function(*leaves))


def _check_bits(subject: Subject) -> None:
    """The same bits from call to call, and on one thread."""
    for way, f in (("a call", subject.function), ("jit", _fresh(subject))):
        first = f(*subject.leaves)
        for number in range(2, CALLS + 1):
            what = f"call {number} beside the first, {way} of {subject.name}"
            close.assert_same_bits(f(*subject.leaves), first, err_msg=what)
    with config(threads=1):
        what = f"one thread beside several, jit of {subject.name}"
        close.assert_same_bits(f(*subject.leaves), first, err_msg=what)


def _check_vmap(subject: Subject) -> None:
    """A loop over examples: all arguments have them, every other one, the others."""
    count = range(len(subject.leaves))
    lanes = [_lanes(x) for x in subject.leaves]
    for batched in dict.fromkeys((tuple(count), tuple(count[::2]), tuple(count[1::2]))):
        if not batched:
            continue
        axes = tuple([0 if i in batched else None for i in count])
        given = [
            stack(lanes[i]) if i in batched else x for i, x in enumerate(subject.leaves)
        ]
        found = vmap(subject.function, axes)(*given)
        loop = [
            subject.function(
                *[lanes[i][k] if i in batched else x for i, x in enumerate(given)]
            )
            for k in range(LANES)
        ]
        wanted = tree.map(_stack, *loop)
        subject.close(found, wanted, f"vmap(in_axes={axes})")


def _stack(*lanes: Any) -> Any:
    return stack([asarray(x) for x in lanes])


def _lanes(leaf: Any) -> list[Any]:
    """Values like one, and not as large: so signs and order stay, and what is valid."""
    array = asarray(leaf)
    if not dtypes.is_inexact(array.dtype):
        return [array] * LANES
    return [(array * (1 - k / 8)).astype(array.dtype) for k in range(LANES)]


def _check_dtypes(subject: Subject) -> None:
    """Where results have the dtype of the arguments, float64 gives float64."""
    if current().enable_x64 is False:
        return
    every = [asarray(x) for x in subject.leaves]
    kinds = [x.dtype for x in every if dtypes.is_inexact(x.dtype)]
    if not kinds:
        return
    usual = np.result_type(*kinds)
    wide = [
        ShapeDtypeStruct(x.shape, _widest(x.dtype)) if x.dtype in kinds else x
        for x in every
    ]
    narrow = eval_shape(subject.function, *every)
    pairs, _ = tree.flatten_with_path(narrow)
    found = tree.leaves(eval_shape(subject.function, *wide))
    for (path, old), new in zip(pairs, found, strict=True):
        if old.dtype == usual and new.dtype != _widest(usual):
            raise AssertionError(
                f"dtypes of {subject.name}: {tree.keystr(path) or 'the result'} is "
                f"{new.dtype} where arguments are {_widest(usual)}: something is made "
                f"{new.dtype} inside, whatever they are"
            )


def _widest(dtype: Any) -> np.dtype[Any]:
    return dtypes.complex128 if dtypes.is_complex(dtype) else dtypes.float64


def _check_numbers(subject: Subject) -> None:
    """Python's numbers in the place of arrays without axes."""
    numbers = [_as_number(x) for x in subject.leaves]
    found = subject.function(*numbers)
    subject.close(found, subject.wanted, "Python's numbers", check_dtypes=False)


def _as_number(x: Any) -> Any:
    array = asarray(x)
    scalar = array.ndim == 0 and dtypes.is_inexact(array.dtype)
    return array.item() if scalar else x


def _check_tangents(subject: Subject) -> None:
    """jvp and vjp are each other's transposes, also of Python's numbers."""
    rng = np.random.default_rng(2)
    point, f = subject.leaves, subject.function
    tangents = random_like(point, rng)
    cotangents = random_like(subject.wanted, rng)
    forward = backward = None
    if "fwd" in subject.options.modes:
        forward = jvp(f, point, tangents)[1]
        again = jvp(f, point, tuple(map(_as_number, tangents)))[1]
        what = f"Python's numbers as tangents of {subject.name}"
        close.assert_same_bits(again, forward, err_msg=what)
    if "rev" in subject.options.modes:
        pull = vjp(f, *point)[1]
        backward = pull(cotangents)
        again = pull(tree.map(_as_number, cotangents))
        what = f"Python's numbers as cotangents of {subject.name}"
        close.assert_same_bits(again, backward, err_msg=what)
    if forward is None or backward is None:
        return
    ahead, behind = numpy_leaves(forward), numpy_leaves(backward)
    left = inner_product(numpy_leaves(cotangents), ahead)
    right = inner_product(behind, numpy_leaves(tangents))
    terms = [
        float(np.abs(a.astype(complex) * b).sum())
        for a, b in zip(behind, numpy_leaves(tangents), strict=True)
    ]
    precision = max(close.default_tolerance(x.dtype) for x in (*ahead, *behind))
    what = f"⟨ȳ, J ẋ⟩ of the jvp, ⟨Jᵀ ȳ, ẋ⟩ of the vjp of {subject.name}"
    close.assert_close(left, right, atol=precision * max(sum(terms), 1.0), err_msg=what)


#: What `check` holds a function to, by the names that `skip` knows.
CHECKS: Final[dict[str, Callable[[Subject], None]]] = {
    "bits": _check_bits,
    "ways": _check_ways,
    "vmap": _check_vmap,
    "dtypes": _check_dtypes,
    "numbers": _check_numbers,
    "tangents": _check_tangents,
}
#: What is asked of the function itself, of its gradient, and of its smooth part.
_OF_GRADIENT, _OF_SMOOTH = ("bits", "ways", "vmap"), ("tangents",)


def check(
    f: Function,
    *args: Any,
    order: int = 1,
    modes: str | Sequence[str] = ("fwd", "rev"),
    devices: Sequence[str] | None = None,
    skip: Collection[str] = (),
    rtol: close.Tolerance = None,
    atol: close.Tolerance = None,
    eps: float | None = None,
) -> None:
    """Holds a function to what must not depend on how it runs.

    Node by node, at once, under jit and on every device it has to give the same
    numbers, shapes and dtypes ("ways"), and the same bits from call to call and on one
    thread ("bits"); so does its gradient. `vmap` has to be a loop ("vmap"). Float64 has
    to give float64, where results have the dtype of arguments ("dtypes"), and Python's
    numbers may stand for arrays without axes ("numbers"). jvp and vjp have to be each
    other's transposes ("tangents") and to agree with finite differences ("grads").

    Args:
      f: a pure function of pytrees.
      args: where to look at it. Arrays, NumPy's scalars and floats vary; whole numbers
        of Python's, bools and all else are passed as they are. Keep away from kinks:
        there finite differences are no derivatives.
      order, modes, eps: as those of `check_grads`.
      devices: their names; by default all that are there.
      skip: names of checks to leave out.
      rtol, atol: as those of `assert_close`, but by default parts of each array's
        largest element; finite differences have those of `check_grads`.

    Raises:
      AssertionError: a check fails, or raises. What differs in the first that does,
        and the first lines of all others.
      ValueRangeError: `skip` or `modes` has an unknown name.
      DeviceError: a device is unknown or missing.

    Example:
      >>> x = np.array([0.3, -0.5], np.float32)
      >>> ft.testing.check(lambda x: fnp.sum(fnp.tanh(x) ** 2), x, devices=["cpu"])
    """
    __tracebackhide__ = True
    for name in skip:
        errors.one_of("check: skip", name, (*CHECKS, "grads"))
    modes = (modes,) if isinstance(modes, str) else tuple(modes)
    for name in modes:
        errors.one_of("check: modes", name, ("fwd", "rev"))
    devices = available_devices() if devices is None else devices
    options = Options([get_device(name).name for name in devices], modes, rtol, atol)
    subject = _subject_of(f, args, options)
    _ = subject.wanted  # what is raised here is no matter of how it runs
    failures: list[str] = []

    def run(name: str, call: Callable[[], Any]) -> Any:
        try:
            return call()
        except Exception as error:
            failures.append(f"check: {name}{_failure(subject, error)}")

    def hold(subject: Subject, names: Collection[str]) -> None:
        for name in names:
            if name not in skip:
                run(name, partial(CHECKS[name], subject))

    hold(subject, [name for name in CHECKS if name not in _OF_SMOOTH])
    if (smooth := run("tangents", partial(_smooth, subject))) is not None:
        hold(smooth, _OF_SMOOTH)
        if (gradient := run("ways", partial(_gradient, smooth))) is not None:
            hold(gradient, _OF_GRADIENT)
        if "grads" not in skip:
            of_grads = smooth.function, smooth.leaves, order, modes, atol, rtol, eps
            run("grads", partial(check_grads, *of_grads))
    if failures:
        others = [text.partition("\n")[0] for text in failures[1:]]
        raise AssertionError("\n".join([failures[0], *others]))


def _failure(subject: Subject, error: Exception) -> str:
    """What a check that raised says of a function."""
    if isinstance(error, AssertionError):
        return f": {getattr(error, 'message', error)}"
    message, at, place = str(error).partition("\n")
    if isinstance(error, errors.DerivativeError) and len({*subject.options.modes}) == 2:
        message += '; where reverse mode is all it has, write check(…, modes="rev")'
    kind = type(error).__name__
    return f" of {subject.name} raises {kind}: {message}{at}{place}"


def _subject_of(f: Function, args: Any, options: Options) -> Subject:
    """The function of those leaves that vary."""
    tree.check_callable(f, "check")
    leaves, structure = tree.flatten(args)
    places = [
        i for i, x in enumerate(leaves)
        if isinstance(x, (float, complex)) or hasattr(x, "dtype")
    ]  # fmt: skip
    if not places:
        raise errors.ArgumentError(
            "check needs an argument that varies: an array or a float; whole numbers "
            f"and bools are passed as they are; got {args!r}"
        )

    def function(*varying: Any) -> Any:
        return f(*tree.unflatten(structure, put(leaves, places, varying)))

    given = tuple([leaves[i] for i in places])
    return Subject(name_of(f), function, given, options)
