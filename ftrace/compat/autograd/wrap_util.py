"""Names for derived functions; operators on functions of several arguments.

It is `autograd.util` as well: tuples with other values in some places.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ftrace.trace.tracing.tracer import Function


def subvals(x: Sequence[Any], ivs: Iterable[tuple[int, Any]]) -> tuple[Any, ...]:
    """`x` with other values in some places."""
    found = list(x)
    for place, value in ivs:
        found[place] = value
    return tuple(found)


def subval(x: Sequence[Any], i: int, v: Any) -> tuple[Any, ...]:
    """`x` with another value in one place."""
    return subvals(x, [(i, v)])


def get_name(fun: Any) -> str:
    """The name of a function."""
    return getattr(fun, "__name__", "[unknown name]")


def get_doc(fun: Any) -> str:
    """Its documentation."""
    return getattr(fun, "__doc__", None) or ""


def wraps(
    fun: Any, namestr: str = "{fun}", docstr: str = "{doc}", **names: Any
) -> Callable[[Function], Function]:
    """Names a function after another, by patterns."""

    def set_name(function: Function) -> Function:
        known = {"fun": get_name(fun), **names}
        function.__name__ = namestr.format(**known)
        function.__doc__ = docstr.format(doc=get_doc(fun), **known)
        return function

    return set_name


def unary_to_nary(unary_operator: Function) -> Function:
    """An operator on functions of one argument, for one or several of many.

    `operator(fun, argnum)` takes the place of an argument, or of a tuple of them where
    `argnum` is a tuple or list.
    """

    @wraps(unary_operator)
    def nary_operator(fun: Any, argnum: Any = 0, *rest: Any, **options: Any) -> Any:
        if type(argnum) not in (int, tuple, list):
            raise TypeError(f"argnum must be an int, a tuple or a list, got {argnum!r}")
        several = not isinstance(argnum, int)

        def nary(*args: Any, **kwargs: Any) -> Any:
            def unary(x: Any) -> Any:
                places = zip(argnum, x, strict=True) if several else [(argnum, x)]
                return fun(*subvals(args, places), **kwargs)

            x = tuple(args[i] for i in argnum) if several else args[argnum]
            return unary_operator(wraps(fun)(unary), x, *rest, **options)

        name = "{op}_of_{fun}_wrt_argnum_{argnum}"
        doc = "The {op} of {fun} with respect to argument {argnum}."
        op = get_name(unary_operator)
        return wraps(fun, name, doc, op=op, argnum=argnum)(nary)

    return nary_operator
