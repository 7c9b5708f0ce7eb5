"""einsum: any number of arrays, multiplied and added up along named axes.

The subscripts become labels per axis; repeated labels take a diagonal; labels that one
operand alone has, and that the result has not, are added up first. Then the operands
are contracted pair by pair, in the order that `opt_einsum` finds (or NumPy's search,
where it is not installed).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from ftrace import dtypes
from ftrace.errors import ArgumentError, ShapeError, ValueRangeError
from ftrace.ground.fast_dataclasses import dataclass
from ftrace.numpy import axes as ax, elementwise as ew
from ftrace.numpy.linear import contract, diagonal_of, finish, label_sizes, promote
from ftrace.numpy.reductions import reduce_by
from ftrace.trace.eager.composite import run_fused
from ftrace.trace.eager.precision import check_precision
from ftrace.trace.primitives.broadcast import reduce_sum_p
from ftrace.trace.primitives.reduction import reduce_max_p
from ftrace.trace.symbolic import sample

__all__ = ["einsum", "einsum_path"]

Path = tuple[tuple[int, ...], ...]
Product = Callable[..., Any]


@dataclass(frozen=True)
class Subscripts:
    """Labels: one string of single characters per operand, and one of the result."""

    operands: tuple[str, ...]
    output: str

    def __str__(self) -> str:
        return f"{','.join(self.operands)}->{self.output}"


def einsum(
    subscripts: Any,
    /,
    *operands: Any,
    out: None = None,
    optimize: Any = "auto",
    precision: Any = None,
    preferred_element_type: Any = None,
    _dot_general: Any = None,
) -> Any:
    """The sum of products over named axes, by Einstein's convention.

    Args:
      subscripts: as in `"ij,jk->ik"`, with `...` for axes without names, and without
        `->` for the labels that stand once; or the first operand, in the form
        `einsum(x, [0, 1], y, [1, 2], [0, 2])`.
      operands: the arrays; their dtypes promote.
      out: not supported.
      optimize: how to find the order of contraction: "auto", "greedy", "optimal",
        True, a path from `einsum_path`, or False for left to right.
      precision: accepted, without effect.
      preferred_element_type: dtype of the result, and of the sum if it holds more.
      _dot_general: what multiplies two operands in the place of `lax.dot_general`.
      out_sharding: where the result is, as `device_put` takes it.

    Raises:
      ValueRangeError: the subscripts are malformed.
      ShapeError: the shapes do not fit them.

    Example:
      >>> x = fnp.array([[1, 2], [3, 4]])
      >>> fnp.einsum("ij,jk->ik", x, x)  # the matrix product
      Array([[ 7, 10],
             [15, 22]], dtype=int32)
      >>> fnp.einsum("ij->j", x)  # a sum over rows
      Array([4, 6], dtype=int32)
      >>> fnp.einsum("ii", x)  # the trace
      Array(5, dtype=int32)
      >>> fnp.einsum("i...,i->...", x, fnp.array([1, 10]))
      Array([31, 42], dtype=int32)
    """
    ax.no_out("einsum", out)
    check_precision("einsum", precision)
    text, arrays = _normal_form(subscripts, operands)
    values, final = promote(*arrays, preferred_element_type=preferred_element_type)
    parsed = parse(text, [v.shape for v in values])
    path = find_path(parsed, [v.shape for v in values], optimize)
    if _dot_general is None:
        result = run_fused(contract_path, values, parsed=parsed, path=path)
    else:
        wanted = values[0].dtype if final is None else final
        product = partial(_pair_of_dot_general, _dot_general, precision, wanted)
        result = contract_path(*values, parsed=parsed, path=path, product=product)
    return finish(result, final)


def einsum_path(
    subscripts: Any, /, *operands: Any, optimize: Any = "auto"
) -> tuple[list[Any], Any]:
    """The order in which `einsum` contracts, and a report of its cost.

    Args:
      subscripts: as of `einsum`.
      operands: the arrays, of which the shapes count.
      optimize: how to find the order: "auto", "greedy", "optimal", True, or False.

    Returns:
      (path, report): the pairs of positions, and an object to print.

    Raises:
      ValueRangeError: the subscripts are malformed.
      ShapeError: the shapes do not fit them.

    Example:
      >>> a, b, c = fnp.ones((2, 9)), fnp.ones((9, 9)), fnp.ones((9, 3))
      >>> path, report = fnp.einsum_path("ij,jk,kl->il", a, b, c)
      >>> path
      [(0, 1), (0, 1)]
    """
    text, arrays = _normal_form(subscripts, operands)
    shapes = [ax.shape_of(x) for x in arrays]
    parsed = parse(text, shapes)
    return _search(parsed, shapes, optimize, optimize is not False)


def _search(
    parsed: Subscripts, shapes: Sequence[Any], optimize: Any, of_numpy: Any
) -> tuple[list[Any], Any]:
    """The path, and a text or an object about it: opt_einsum's, or else NumPy's."""
    search = _opt_einsum()
    shapes = [tuple(map(sample, shape)) for shape in shapes]
    try:
        if search is not None:
            return search(str(parsed), *shapes, shapes=True, optimize=optimize)
        dummies: list[Any] = [np.broadcast_to(0.0, shape) for shape in shapes]
        return np.einsum_path(str(parsed), *dummies, optimize=of_numpy)
    except (LookupError, TypeError, ValueError) as error:
        raise _no_path(optimize) from error


# Reading.


def _normal_form(subscripts: Any, operands: Sequence[Any]) -> tuple[str, list[Any]]:
    """Subscripts as text, and the operands."""
    if isinstance(subscripts, str):
        return subscripts.replace(" ", ""), ew.values_together(operands)
    parts = [subscripts, *operands]
    arrays = parts[0 : len(parts) - len(parts) % 2 : 2]
    lists = parts[1 : len(parts) : 2]
    names = _sublist_names([*lists, *(parts[-1:] if len(parts) % 2 else [])])
    text = ",".join(_sublist_text(entry, names) for entry in lists)
    if len(parts) % 2:
        text += "->" + _sublist_text(parts[-1], names)
    return text, ew.values_together(arrays)


def _sublist_names(lists: Sequence[Any]) -> dict[Any, str]:
    for entry in lists:
        if not isinstance(entry, (list, tuple)):
            raise ArgumentError(
                "einsum: without a string of subscripts, arrays and lists of labels "
                "must alternate: einsum(x, [0, 1], y, [1, 2], [0, 2]); got "
                f"{entry!r:.60} where a list is expected"
            )
    labels = {label for entry in lists for label in entry if label is not Ellipsis}
    ordered = sorted(labels, key=lambda label: (f"{type(label)}", label))
    return {label: _letter(i) for i, label in enumerate(ordered)}


def _sublist_text(entry: Any, names: dict[Any, str]) -> str:
    return "".join("..." if label is Ellipsis else names[label] for label in entry)


def _letter(i: int) -> str:
    """A distinct letter for each number: the alphabets first, then beyond Latin."""
    alphabet = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
    return alphabet[i] if i < len(alphabet) else chr(0x100 + i)


def parse(text: str, shapes: Sequence[tuple[int, ...]]) -> Subscripts:
    """Subscripts with an explicit result and letters in the place of `...`.

    Raises:
      ValueRangeError: they are malformed, or do not go with the number of operands.
      ShapeError: an operand has another number of axes than its labels, or two axes of
        one label differ in size.
    """
    inputs, arrow, output = text.partition("->")
    terms = inputs.split(",")
    if len(terms) != len(shapes):
        raise ValueRangeError(
            f"einsum: {text!r} names {len(terms)} operands, got {len(shapes)}"
        )
    for term in (*terms, output):
        rest = term.replace("...", "", 1)
        if not {*".->"}.isdisjoint(rest):
            raise ValueRangeError(
                f"einsum: {term!r} in {text!r} must consist of labels and one '...'"
            )
    # Messages name letters of the user's: those for "..." are others.
    free = (c for i in range(52, 1 << 16) if (c := _letter(i)) not in text)
    depth = max(
        (len(s) - len(t) + 3 for t, s in zip(terms, shapes, strict=True) if "..." in t),
        default=0,
    )
    unnamed = "".join(next(free) for _ in range(depth))
    labels: list[str] = []
    for term, shape in zip(terms, shapes, strict=True):
        missing = len(shape) - len(term.replace("...", ""))
        if missing < 0 or (missing and "..." not in term):
            raise ShapeError(
                f"einsum: the labels {term!r} in {text!r} do not fit an operand of "
                f"shape {shape}"
            )
        labels.append(term.replace("...", unnamed[depth - missing :]))
    if not arrow:
        joined = "".join(terms).replace("...", "")
        output = unnamed + "".join(
            sorted(c for c in set(joined) if joined.count(c) == 1)
        )
    else:
        output = output.replace("...", unnamed)
    repeated = len(set(output)) != len(output)
    unknown = sorted(set(output) - set("".join(labels)))
    if repeated or unknown:
        why = f"{unknown} stand in no operand" if unknown else "a label stands twice"
        raise ValueRangeError(f"einsum: the result of {text!r} is malformed: {why}")
    _check_sizes(labels, shapes)
    return Subscripts(tuple(labels), output)


def _check_sizes(terms: Sequence[str], shapes: Sequence[tuple[int, ...]]) -> None:
    """Raises where axes of one label differ in size and, of two operands, none is 1."""
    for labels, shape in zip(terms, shapes, strict=True):
        sizes: dict[str, int] = {}
        for label, size in zip(labels, shape, strict=True):
            if (known := sizes.setdefault(label, size)) != size:
                raise ShapeError(
                    f"einsum: label {label!r} stands for sizes {known} and {size} of "
                    f"an operand of shape {shape}"
                )
    label_sizes("einsum", shapes, terms, "", repeats=True)


# The order.


def _opt_einsum() -> Any:
    """The search of opt_einsum, or None where it is not installed."""
    try:
        from opt_einsum import contract_path as search
    except ImportError:
        return None
    return search


def find_path(
    parsed: Subscripts, shapes: Sequence[tuple[int, ...]], optimize: Any
) -> Path:
    """The positions to contract, step by step; each result is put at the end."""
    count = len(shapes)
    if optimize is False or (count <= 2 and isinstance(optimize, (bool, str))):
        return ((0, 1), *[(0, count - i) for i in range(2, count)])  # the last: behind
    if isinstance(optimize, (bool, str)):
        method = "optimal" if optimize == "optimal" else "greedy"
        asked = "auto" if optimize is True else optimize
        optimize, _ = _search(parsed, shapes, asked, method)
    try:
        path = tuple(tuple(step) for step in optimize if not isinstance(step, str))
        for step in path:
            if {*step} - {*range(count)} or len({*step}) != len(step):
                raise _no_path(optimize)
            count -= len(step) - 1
    except TypeError:
        raise _no_path(optimize) from None
    if path and count != 1:
        raise _no_path(optimize)
    return path


def _no_path(optimize: Any) -> ValueRangeError:
    return ValueRangeError(
        "einsum: optimize must be True, False, the name of a search as 'greedy', or a "
        f"path that einsum_path has found for as many operands, got {optimize!r:.60}"
    )


# The sum.


def contract_path(
    *values: Any, parsed: Subscripts, path: Path, product: Product | None = None
) -> Any:
    """Contracts the operands in the order of the path."""
    terms = [
        _without_repeats(value, labels)
        for value, labels in zip(values, parsed.operands, strict=True)
    ]
    if len(terms) > 1:
        for step in path:
            chosen = [terms[i] for i in sorted(step)]
            terms = [t for i, t in enumerate(terms) if i not in step]
            while len(chosen) > 1:
                others = [labels for _, labels in (*chosen[2:], *terms)]
                wanted = "".join([parsed.output, *others])
                chosen[:2] = [_pair(chosen[0], chosen[1], wanted, product)]
            terms.append(chosen[0])
    value, labels = terms[0]
    value, labels = _sum_unwanted(value, labels, parsed.output)
    return ax.permute(value, tuple(labels.index(label) for label in parsed.output))


def _without_repeats(value: Any, labels: str) -> tuple[Any, str]:
    """Takes the diagonal of axes that share a label."""
    while len(set(labels)) != len(labels):
        label = next(c for c in labels if labels.count(c) > 1)
        first = labels.index(label)
        second = labels.index(label, first + 1)
        value = diagonal_of(value, first, second)
        rest = labels[:first] + labels[first + 1 : second] + labels[second + 1 :]
        labels = rest + label
    return value, labels


def _sum_unwanted(value: Any, labels: str, wanted: str) -> tuple[Any, str]:
    """Adds up the axes whose labels nobody needs."""
    axes = tuple(i for i, label in enumerate(labels) if label not in wanted)
    kept = "".join(label for label in labels if label in wanted)
    add = reduce_max_p if value.dtype == dtypes.bool_ else reduce_sum_p
    return reduce_by(add, value, axes, False), kept


def _pair(
    first: tuple[Any, str],
    second: tuple[Any, str],
    wanted: str,
    product: Product | None,
) -> tuple[Any, str]:
    """The product of two terms, over the labels that are not wanted."""
    x, x_labels = _sum_unwanted(*first, wanted + second[1])
    y, y_labels = _sum_unwanted(*second, wanted + x_labels)
    shared = [c for c in x_labels if c in y_labels and c in wanted]
    out = shared + [c for c in x_labels + y_labels if c in wanted and c not in shared]
    if product is not None:
        return product(x, y, x_labels, y_labels, shared), "".join(out)
    return contract("einsum", x, y, x_labels, y_labels, out, repeats=True), "".join(out)


def _pair_of_dot_general(
    dot_general: Product, precision: Any, preferred: Any,
    x: Any, y: Any, x_labels: str, y_labels: str, batch: Sequence[str],
) -> Any:  # fmt: skip
    """The product of two terms by a function of the caller's."""
    summed = [c for c in x_labels if c in y_labels and c not in batch]
    dimension_numbers = tuple(
        tuple(tuple(map(labels.index, names)) for labels in (x_labels, y_labels))
        for names in (summed, batch)
    )
    return dot_general(
        x, y, dimension_numbers, precision, preferred_element_type=preferred
    )
