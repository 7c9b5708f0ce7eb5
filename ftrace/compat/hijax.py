"""What libraries name of `jax.experimental.hijax` when they are imported.

Values in a graph are arrays and keys: classes may be derived from these, and what would
put a value of a type of the user's into a graph says that there are none.
"""

from __future__ import annotations

from typing import Any

from ftrace.compat.primitive import (
    Zero as Zero,
    instantiate_zeros as instantiate_zeros,
    is_undefined_primal as is_undefined_primal,
)
from ftrace.errors import MissingRuleError
from ftrace.trace.avals import ShapedArray as AbstractValue


class Effect:
    """The base of the effects of primitives, which jaxprs here do not list."""


class HiType:
    """The base of types of the user's own: no value in a graph has one."""


class MutableHiType(HiType):
    """The base of those whose values change."""


class AvalQDD:
    """The type of a value that changes: there are none."""


AvalMutableQDD = AvalQDD


def _missing(name: str) -> MissingRuleError:
    return MissingRuleError(
        f"{name}: values in a graph are arrays and keys, never of types of the user's "
        "own (jax.experimental.hijax); register_pytree_node makes trees of a class; in "
        "flax.nnx leave hijax off"
    )


class HiPrimitive:
    """The base of primitives on types of the user's own."""

    multiple_results = False

    def __init__(self, name: str) -> None:
        self.name = name

    def bind(self, *args: Any, **params: Any) -> Any:
        """Refuses: nothing is done for these primitives.

        Raises:
          MissingRuleError: always.
        """
        raise _missing(self.name)


class aval_method:  # as JAX writes them
    """A method that traced values of a type of the user's have."""

    def __init__(self, fun: Any) -> None:
        self.fun = fun


class aval_property:
    """A property that traced values of a type of the user's have."""

    def __init__(self, fget: Any) -> None:
        self.fget = fget


class _Kinds(set[type]):
    add_type = set[type].add


#: The effects that bodies of loops may have.
control_flow_allowed_effects = _Kinds()


def register_hitype(kind: type, typeof: Any) -> None:
    """Accepts a class, whose values get into no graph: they say so when they would."""

    def refuse(self: Any) -> Any:
        raise _missing(kind.__name__)

    if not hasattr(kind, "__jax_array__"):
        setattr(kind, "__jax_array__", refuse)  # noqa: B010  (of classes not ours)


__all__ = [
    "AbstractValue", "AvalMutableQDD", "AvalQDD", "Effect", "HiPrimitive", "HiType",
    "MutableHiType", "Zero", "aval_method", "aval_property",
    "control_flow_allowed_effects", "instantiate_zeros", "is_undefined_primal",
    "register_hitype",
]  # fmt: skip
