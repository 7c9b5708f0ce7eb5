"""Arrays that are written in place, as in `jax.ref`.

    total = new_ref(zeros(3))
    total[1] += 1.0         # in place
    total[...]              # an array

Within a function they are plain values of its trace: nothing is shared, and derivatives
go through them. A function may also read and write references from around it, or that
it is given: under `jit` and in the bodies of loops and branches what they hold is one
more argument and result; `vmap` maps those that are arguments, not those from around
it; under `grad`, `vjp` and `jvp` no derivative goes through what remains in them.
Rules of `custom_jvp` and `custom_vjp` write those that their function is given.
"""

from __future__ import annotations

from typing import Any

from ftrace.ground.missing_names import tell_missing
from ftrace.numpy import axes as ax
from ftrace.numpy.creation import array
from ftrace.numpy.new_arrays import empty
from ftrace.trace.references import AbstractRef as AbstractRef, Ref as Ref
from ftrace.trace.tracing.tracer import Value

__all__ = [
    "AbstractRef", "Ref", "addupdate", "empty_ref", "free_ref", "freeze", "get",
    "new_ref", "set", "swap",
]  # fmt: skip


def new_ref(init_val: Value, *, memory_space: Any = None, kind: Any = None) -> Ref:
    """A reference that holds this array at first.

    Args:
      init_val: an array or a number.
      memory_space, kind: accepted and ignored.

    Example:
      >>> @ft.jit
      ... def f(x):
      ...     total = ft.new_ref(0.0)
      ...     total[...] += x
      ...     return total[...]
      >>> f(2.0)
      Array(2., dtype=float32)
    """
    return Ref(ax.strong(array(init_val)))  # a copy: that may be given up


def empty_ref(ty: Any, memory_space: Any = None) -> Ref:
    """A reference to an array of this shape and dtype, with any elements.

    Args:
      ty: anything with a shape and a dtype.
      memory_space: accepted and ignored.

    Example:
      >>> r = ft.ref.empty_ref(ft.ShapeDtypeStruct((2,), fnp.float32))
      >>> r[...] = fnp.ones(2)
      >>> r[...]
      Array([1., 1.], dtype=float32)
    """
    return Ref(empty(ty.shape, ty.dtype))


def freeze(ref: Ref) -> Any:
    """What a reference holds; it cannot be used any more.

    Args:
      ref: the reference.

    Raises:
      ArgumentError: a function around has made it, or it is frozen.

    Example:
      >>> ft.ref.freeze(ft.new_ref(fnp.array([1.0, 2.0])))
      Array([1., 2.], dtype=float32)
    """
    return ref.give_up()


def free_ref(ref: Ref) -> None:
    """Ends a reference: it cannot be used any more.

    Args:
      ref: the reference.

    Example:
      >>> ft.ref.free_ref(ft.new_ref(fnp.ones(2)))
    """
    ref.give_up()


def get(ref: Ref, idx: Any = ...) -> Any:
    """`ref[idx]`.

    Args:
      ref: a reference.
      idx: an index, as of an array.

    Example:
      >>> ft.ref.get(ft.new_ref(fnp.array([1.0, 2.0])), 1)
      Array(2., dtype=float32)
    """
    return ref[idx]


def set(ref: Ref, idx: Any, value: Value) -> None:
    """`ref[idx] = value`.

    Args:
      ref: a reference.
      idx: an index, as of an array.
      value: an array or a number that broadcasts to the place.

    Example:
      >>> r = ft.new_ref(fnp.array([1.0, 2.0]))
      >>> ft.ref.set(r, 1, 5.0)
      >>> r[...]
      Array([1., 5.], dtype=float32)
    """
    ref[idx] = value


def swap(ref: Ref, idx: Any, value: Value) -> Any:
    """`ref[idx] = value`; returns what was there.

    Args:
      ref: a reference.
      idx: an index, as of an array.
      value: an array or a number that broadcasts to the place.

    Example:
      >>> r = ft.new_ref(fnp.array([1.0, 2.0]))
      >>> ft.ref.swap(r, 1, 5.0)
      Array(2., dtype=float32)
      >>> r[...]
      Array([1., 5.], dtype=float32)
    """
    found = ref[idx]
    ref[idx] = value
    return found


def addupdate(ref: Ref, idx: Any, x: Value) -> None:
    """`ref[idx] += x`; where an index comes twice, both are added.

    Args:
      ref: a reference.
      idx: an index, as of an array.
      x: an array or a number that broadcasts to the place.

    Example:
      >>> r = ft.new_ref(fnp.array([1.0, 2.0]))
      >>> ft.ref.addupdate(r, 1, 5.0)
      >>> r[...]
      Array([1., 7.], dtype=float32)
    """
    ref.addupdate(x, idx)


tell_missing(__name__)
