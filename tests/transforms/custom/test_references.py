"""References: functions that write in place are those that return what they wrote."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

import ftrace as ft
import ftrace.numpy as fnp
from ftrace import lax, ref as refs


def _written(x: Any) -> Any:
    cell = ft.new_ref(x)
    cell[...] = fnp.sin(cell[...])
    cell[1] = cell[0] * 2
    return cell[...]


def _scanned(x: Any) -> Any:
    total = ft.new_ref(fnp.zeros(()))

    def step(carry: Any, y: Any) -> Any:
        total[...] += carry * y
        return carry + y, None

    lax.scan(step, x[0], x)
    return ft.freeze(total)


def _nested(x: Any) -> Any:
    total = ft.new_ref(x)

    def outer(i: Any, carry: Any) -> Any:
        def inner(state: Any) -> Any:
            refs.addupdate(total, 0, x[1])
            return state + 1

        return lax.while_loop(lambda state: state < 2, inner, carry * 0) + carry

    lax.fori_loop(0, 3, outer, 0)
    return total[...]


def _branched(x: Any) -> Any:
    cell, other = ft.new_ref(x), ft.new_ref(x[0])

    def first() -> Any:
        cell[...] *= 3
        return refs.swap(other, ..., 5.0)

    return lax.cond(x[0] > 0, first, lambda: x[1]) + cell[...] * other[...]


def _of_parts(x: Any) -> Any:
    """The body has a reference to an element of one that is scanned."""
    cells = ft.new_ref(x)

    def step(carry: Any, cell: Any) -> Any:
        cell[...] = cell[...] * carry
        return cell[...], None

    lax.scan(step, x[1], cells)
    return cells[...]


def _in_a_jit(x: Any) -> Any:
    cell = ft.new_ref(x)

    @ft.jit
    def double(given: Any) -> None:
        given[...] += cell_of_all[...] * 0 + given[...]

    cell_of_all = ft.new_ref(x[0])
    double(cell)
    ft.checkpoint(lambda: refs.set(cell, 0, 3.0))()
    return cell[...]


def _part_of_a_part(x: Any) -> Any:
    cell = ft.new_ref(fnp.stack([x, x]))
    row = cell.at[1]
    assert (row.shape, row.dtype, row.ndim, row.size) == (x.shape, x.dtype, 1, 2)
    row[0] *= 3
    row.at[1:][...] += row.at[1][...]
    row.addupdate(x[0], 1)
    return refs.swap(row, ..., x) + cell[1] - cell[0]


CASES: list[tuple[Callable[[Any], Any], Callable[[Any], Any]]] = [
    (_written, lambda x: fnp.sin(x).at[1].set(fnp.sin(x[0]) * 2)),
    (_scanned, lambda x: x[0] * x[0] + (x[0] + x[0]) * x[1]),
    (_nested, lambda x: x.at[0].add(6 * x[1])),
    (_branched, lambda x: fnp.where(x[0] > 0, x[0] + 15 * x, x[1] + x * x[0])),
    (_of_parts, lambda x: fnp.stack([x[0] * x[1], x[1] * (x[0] * x[1])])),
    (_part_of_a_part, lambda x: fnp.stack([3 * x[0], 2 * x[1] + x[0]])),
    (_in_a_jit, lambda x: (2 * x).at[0].set(3.0)),
]


@pytest.mark.parametrize(("function", "pure"), CASES, ids=lambda f: f.__name__)
def test_a_function_that_writes_inside_is_the_pure_one(
    function: Callable[[Any], Any], pure: Callable[[Any], Any]
) -> None:
    x = fnp.asarray([0.5, -1.25])
    rows = fnp.stack([x, -x, x + 1])

    def total(f: Callable[[Any], Any]) -> Callable[[Any], Any]:
        return ft.grad(lambda x: (f(x) * fnp.asarray([1.0, 2.0])).sum())

    for transform, given in (
        (lambda f: f, x),
        (ft.jit, x),
        (ft.vmap, rows),
        (total, x),
        (lambda f: ft.jit(ft.vmap(total(f))), rows),
        (lambda f: lambda x: ft.jvp(f, (x,), (x * x,))[1], x),
    ):
        found, expected = transform(function)(given), transform(pure)(given)
        np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-7)


def test_a_function_writes_references_from_around_it_at_each_call() -> None:
    around = ft.new_ref(np.zeros(3, np.float32))

    @ft.jit
    def add(x: Any, given: Any) -> Any:
        around[1] += x
        given[...] = around[...].sum()
        return given[...] * 2

    assert repr(ft.typeof(around)) == "Ref{f32[3]}"
    assert ft.typeof(around) == ft.ref.AbstractRef(ft.typeof(fnp.zeros(3)))
    for k, expected in ((1.0, 1.0), (2.0, 3.0), (np.float32(3), 6.0)):
        given = ft.new_ref(0.0)
        assert (add(k, given), given[...]) == (2 * expected, expected)
    around[...] = 1.0  # what it holds now is what the program reads
    assert add(0.0, given) == 6.0
    value, slope = ft.value_and_grad(lambda x: add(x, given) * x)(2.0)
    assert (value, slope, given[...]) == (20.0, 14.0, 5.0)


def test_mapped_references_hold_a_value_for_each_lane() -> None:
    def norm(x: Any, out: Any) -> None:
        out[...] = (x * x).sum()

    out = ft.new_ref(fnp.zeros((2, 3)))
    x = np.arange(24.0, dtype=np.float32).reshape(2, 3, 4)
    ft.jit(ft.vmap(ft.vmap(norm)))(x, out)
    np.testing.assert_allclose(out[...], (x * x).sum(-1))
    ft.vmap(norm, in_axes=(1, 1))(x, wide := ft.new_ref(fnp.zeros((1, 3))))
    np.testing.assert_allclose(wide[0], (x * x).sum((0, 2)))


def test_cotangents_are_added_to_references() -> None:
    def square(cell: Any, x: Any) -> Any:
        cell[...] = fnp.sin(cell[...])
        return cell[...] * x

    cell, total = ft.new_ref(2.0), ft.new_ref(100.0)
    value, pull = ft.vjp(square, cell, fnp.asarray(3.0))
    np.testing.assert_allclose(value, 3 * np.sin(2.0), rtol=1e-6)
    np.testing.assert_allclose(cell[...], np.sin(2.0), rtol=1e-6)
    tangents = ft.transforms.tangents
    placed, kept = pull.with_refs(total, tangents.GradValue())(1.0)
    ft.jit(lambda: pull.with_refs(tangents.DontWant(), tangents.DontWant())(1.0))()
    assert repr((placed, pull.with_refs(tangents.DontWant(), total)(0.0)[0])) == (
        "(GradRef(), DidntWant())"
    )
    np.testing.assert_allclose(total[...], 100 + 3 * np.cos(2.0), rtol=1e-6)
    np.testing.assert_allclose(kept, np.sin(2.0), rtol=1e-6)


@ft.custom_vjp
def _stash(cell: Any, x: Any) -> Any:
    return x


def _backward(cell: Any, ct: Any) -> tuple[None, Any]:
    cell[...] = cell[...] * 10 + ct
    return None, ct


_stash.defvjp(lambda cell, x: (x, cell), _backward)


@pytest.mark.filterwarnings("ignore:scatter inputs have incompatible:FutureWarning")
def test_backward_rules_write_references_that_functions_are_given() -> None:
    def plain(cell: Any, x: Any) -> Any:
        return _stash(cell, x * _stash(cell, 2 * x))

    def scanned(cell: Any, x: Any) -> Any:
        def step(y: Any, _: Any) -> Any:
            return _stash(cell, y * x), None

        return lax.scan(ft.checkpoint(step), x, None, length=2)[0]

    def branched(cell: Any, x: Any) -> Any:
        return lax.cond(x > 0, lambda: plain(cell, x), lambda: x)

    def of_two(cell: Any, x: Any) -> Any:
        cell[...] = cell[...] + 1.0  # forward; backward comes later
        return plain(cell, x)

    for function, slope, left in (
        (plain, 12.0, 713.0),
        (scanned, 27.0, 713.0),
        (branched, 12.0, 713.0),
        (of_two, 12.0, 813.0),
    ):

        def pulled(cell: Any, x: Any, f: Any = function) -> Any:
            return ft.vjp(lambda x: f(cell, x), x)[1](1.0)[0]

        gradient = ft.grad(function, 1)
        for derivative in (
            gradient, ft.jit(gradient), ft.grad(ft.jit(function), 1), pulled,
            ft.jit(pulled),
        ):  # fmt: skip
            cell = ft.new_ref(7.0)
            for _ in range(2):
                cell[...] = 7.0
                assert (derivative(cell, 3.0), cell[...]) == (slope, left)
    cell = ft.new_ref(7.0)
    assert (plain(cell, 3.0), cell[...]) == (18, 7)
    ft.grad(plain, 1)(count := ft.new_ref(7), 3.0)
    assert (count[...], count.dtype.name) == (713, "int32")


def test_shapes_and_graphs_of_functions_that_write_references() -> None:
    cell = ft.new_ref(fnp.zeros(2))

    def f(given: Any, x: Any) -> Any:
        given[0] = x
        cell[...] += given[...]
        return cell[...] * x

    assert ft.eval_shape(f, ft.new_ref(fnp.ones(2)), 2.0).shape == (2,)
    assert ft.eval_shape(lambda: f(cell, 2.0)).shape == (2,)
    jaxpr = ft.make_jaxpr(f)(ft.new_ref(fnp.ones(2)), 2.0)
    assert [a.shape for a in jaxpr.in_avals] == [(2,), ()]
    np.testing.assert_array_equal(cell[...], [0, 0])
    given = ft.new_ref(fnp.ones(2))
    compiled = ft.jit(lambda given, x: given.addupdate(x)).lower(given, 2.0).compile()
    around = ft.jit(lambda x: f(cell, x)).lower(2.0).compile()
    for k in (1.0, 2.0):
        compiled(given, 2.0)
        np.testing.assert_array_equal(given[...], 1 + 2 * k)
        np.testing.assert_array_equal(around(2.0)[0], 8)


def test_what_references_cannot_do_is_said() -> None:
    cell = ft.new_ref(fnp.zeros(2))

    def both(given: Any) -> None:
        given[...] = cell[...]

    for message, wrong in (
        ("an array or a number is required", lambda: fnp.sin(cell)),
        ("must be an array or a number, got Ref", lambda: ft.jit(lambda r: r)(cell)),
        ("same reference twice", lambda: ft.jit(lambda a, b: None)(cell, cell)),
        ("also uses from around", lambda: ft.jit(both)(cell)),
        ("function that made it", lambda: ft.jit(ft.freeze)(cell)),
        ("vmap: the function writes", lambda: ft.vmap(
            lambda x: refs.set(cell, 0, x))(fnp.ones(3))),
        ("is no bool", lambda: bool(cell)),
        ("shape", lambda: refs.set(cell, ..., fnp.ones(3))),
    ):  # fmt: skip
        with pytest.raises(ft.errors.FtraceError, match=message):
            wrong()
    np.testing.assert_array_equal(ft.freeze(cell), [0, 0])
    for wrong in (lambda: cell[...], lambda: refs.free_ref(cell)):
        with pytest.raises(ft.errors.ArgumentError, match="frozen"):
            wrong()
    # What was raised has left nothing behind: the next trace is as the first.
    assert ft.jit(lambda: ft.new_ref(2.0)[...] * 2)() == 4.0


def test_a_reference_holds_an_array_of_its_own() -> None:
    given = np.ones(2, np.float32)
    cell = ft.new_ref(given)
    given[:] = 5
    spent = cell[...]
    ft.jit(lambda x: x * 2, donate_argnums=0)(spent)
    for same in (cell, copy.copy(cell), pickle.loads(pickle.dumps(cell))):
        add = ft.jit(lambda x, same=same: x + same[...])
        np.testing.assert_array_equal(add(0.0), [1, 1])
        same[0] = 3.0
        np.testing.assert_array_equal(add(1.0), [4, 2])
        same[0] = 1.0


def test_what_a_program_only_reads_it_does_not_write() -> None:
    cell = ft.new_ref(fnp.ones(1))

    @ft.jit
    def read(x: Any) -> Any:
        ft.debug.callback(lambda: refs.set(cell, 0, 7.0))
        return x + cell[0]

    assert read(1.0) == 2.0
    ft.effects_barrier()
    assert read(1.0) == cell[0] + 1 == 8.0
    np.testing.assert_array_equal(ft.vmap(read)(fnp.arange(2.0)), [7, 8])


def test_a_reference_made_in_a_function_is_from_around_those_that_come_later() -> None:
    made: list[ft.ref.Ref] = []

    def keeps(x: Any) -> Any:
        made.append(ft.new_ref(np.float32(2.0)))
        return x

    ft.grad(keeps)(1.0)
    scale = ft.jit(lambda x: x * made[0][...])
    assert scale(3.0) == 6.0
    made[0][...] = 5.0
    assert scale(3.0) == 15.0


def test_what_is_only_read_is_traced_again_when_it_has_changed() -> None:
    cell, traces = ft.new_ref(2.0), list[Any]()

    @ft.jit
    def scaled(x: Any) -> Any:
        traces.append(x)
        return x * cell[...]

    outer = ft.jit(lambda x: scaled(x) + 1)
    compiled = scaled.lower(1.0).compile()
    for value, count in ((2.0, 1), (2.0, 1), (5.0, 3), (6.0, 3)):
        if cell[...] != value:
            cell[...] = value
        calls = scaled, scaled, compiled, lambda x: outer(x) - 1, ft.grad(scaled)
        assert [f(1.0) for f in calls] == [value] * 5
        assert len(traces) <= count + 2


def test_a_jvp_rule_is_given_what_references_hold_and_its_tangents() -> None:
    """The value of the function, and what it leaves in the reference, by the rule."""

    @partial(ft.custom_jvp, nondiff_argnums=(0,))
    def f(factor: Any, cells: Any, x: Any) -> Any:
        cells["a"][...] += x
        return factor * x

    @f.defjvp
    def _(factor: Any, primals: Any, tangents: Any) -> Any:
        (cells, x), (along, t) = primals, tangents
        cells["a"][...] += x
        along["a"][...] += 7 * t
        return factor * x, 5 * t

    def g(x: Any) -> Any:
        cell = ft.new_ref(x * x)
        return f(2, {"a": cell}, x) + cell[...]

    for wrap in (lambda f: f, ft.jit):
        value, slope = wrap(ft.value_and_grad(wrap(g)))(3.0)
        assert (g(3.0), value, slope) == (18, 18, 5 + 7 + 6)
        assert wrap(lambda x: ft.jvp(g, (x,), (2.0,)))(3.0) == (18, 36)
        assert wrap(ft.vmap(ft.grad(g)))(fnp.arange(2.0)).tolist() == [12, 14]
    around = ft.new_ref(fnp.zeros(()))
    for k, h in enumerate((f, ft.jit(f, static_argnums=0))):
        assert ft.grad(lambda x, h=h: h(2, {"a": around}, x))(3.0) == 5
        assert around[...] == 3 * (k + 1)


def test_a_reference_tells_where_its_array_lies() -> None:
    cell = ft.new_ref(fnp.arange(3.0))
    assert cell.unsafe_buffer_pointer() == cell.read().unsafe_buffer_pointer()
