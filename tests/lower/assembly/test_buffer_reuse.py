"""Values that take the memory of others: fewer bytes, never another result."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings, strategies as st

import ftrace as ft
import ftrace.numpy as fnp
from ftrace import lax
from ftrace.errors import IndexBoundsError
from ftrace.lower.program import RunBranch, RunKernel, RunLoop

DEVICES = ("cpu", "interpreter", "opencl")
ROWS, COLUMNS = 6, 4

Update = Callable[[Any, Any], Any]

#: Updates of a table `t` at a row `i`, or over all of it.
UPDATES: dict[str, Update] = {
    "set one": lambda t, i: t.at[i, 1].set(3.0),
    "set a row": lambda t, i: t.at[i].set(1.5),
    "a row of itself": lambda t, i: t.at[i].set(t[i] * 0.5 + 1),
    "a row of its neighbours": lambda t, i: t.at[i].set(t[i - 1] + t[(i + 1) % ROWS]),
    "a row of itself, turned": lambda t, i: t.at[i].set(t[i][::-1]),
    "a row of the sum of all": lambda t, i: t.at[i].set(t.sum(0) * 0.1),
    "add to a row": lambda t, i: t.at[i].add(t[0]),
    "a column of a column": lambda t, i: t.at[:, 1].set(t[:, 2] * 0.5),
    "rows of rows": lambda t, i: t.at[1:].set(t[:-1]),
    "rows of rows, backwards": lambda t, i: t.at[:-1].set(t[1:]),
    "one row twice": lambda t, i: t.at[fnp.array([0, 0])].add(t[:2]),
    "scattered": lambda t, i: t.at[fnp.array([3, 1, 4])].set(t[fnp.array([1, 3, 0])]),
    "computed rows": lambda t, i: t.at[(fnp.arange(3) + i) % ROWS].multiply(0.5),
    "everything": lambda t, i: t * 0.9 + 0.1,
    "everything, turned": lambda t, i: t[::-1] * 0.9,
    "a slice": lambda t, i: lax.dynamic_update_slice(t, t[:2] * 2, (i, 0)),
}


def table() -> Any:
    return np.arange(ROWS * COLUMNS, dtype=np.float32).reshape(ROWS, COLUMNS) / 7


def in_python(updates: list[str], rounds: int) -> Any:
    """The updates one by one, each on a copy."""
    t: Any = fnp.asarray(table())
    total = t * 0
    for i in range(rounds):
        for name in updates:
            t = UPDATES[name](t, i)
        total = total + t
    return np.asarray(t), np.asarray(total)


def in_a_loop(updates: list[str], rounds: int) -> Any:
    def step(i: Any, carry: Any) -> Any:
        t, total = carry
        for name in updates:
            t = UPDATES[name](t, i)
        return t, total + t

    return lambda t: lax.fori_loop(0, rounds, step, (t, t * 0))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", UPDATES)
def test_an_update_in_a_loop_is_one_of_a_copy(name: str, device: str) -> None:
    with ft.config(device=device):
        got = ft.jit(in_a_loop([name], ROWS))(table())
    for a, b in zip(got, in_python([name], ROWS), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5)


@pytest.mark.parametrize("device", ["cpu", "interpreter"])
@settings(max_examples=25)
@given(names=st.lists(st.sampled_from(sorted(UPDATES)), min_size=2, max_size=4))
@example(names=["a column of a column", "rows of rows"])
def test_updates_after_updates(device: str, names: list[str]) -> None:
    want = in_python(names, 3)
    with ft.config(device=device):
        got = ft.jit(in_a_loop(names, 3))(table())
        donated = ft.jit(in_a_loop(names, 3), donate_argnums=0)(fnp.asarray(table()))
    for a, b, c in zip(got, donated, want, strict=True):
        np.testing.assert_allclose(a, c, rtol=1e-4)
        np.testing.assert_allclose(b, c, rtol=1e-4)


@pytest.mark.parametrize("name", UPDATES)
def test_the_argument_is_not_touched_unless_donated(name: str) -> None:
    given = fnp.asarray(table()) * 1
    ft.jit(lambda t: UPDATES[name](t, 2))(given)
    np.testing.assert_array_equal(given, table())


# Bytes.


def loops(program: Any) -> list[RunLoop]:
    return [step for step in program.steps if isinstance(step, RunLoop)]


@pytest.mark.parametrize(
    "name", ["set a row", "a row of itself", "a row of its neighbours", "add to a row"]
)
def test_a_row_is_updated_without_a_copy_of_the_table(name: str) -> None:
    with ft.config(disabled_rules={"promote_loops"}):
        f = ft.jit(lambda t: lax.fori_loop(0, 5, lambda i, t: UPDATES[name](t, i), t))
        (loop,) = loops(f.lower(np.zeros((5000, 64), np.float32)).program)
    assert loop.carry[0].spare == -1
    for step in loop.body.steps:
        assert isinstance(step, RunKernel)
        assert step.info.operations < 5000


@pytest.mark.parametrize("name", ["rows of rows", "a row of the sum of all"])
def test_what_reads_what_it_overwrites_is_copied(name: str) -> None:
    with ft.config(disabled_rules={"promote_loops"}):
        f = ft.jit(lambda t: lax.fori_loop(0, 5, lambda i, t: UPDATES[name](t, i), t))
        (loop,) = loops(f.lower(table()).program)
    copied = loop.carry[0].spare >= 0 or loop.body.arena > 0
    assert copied


@pytest.mark.parametrize("device", DEVICES)
def test_a_donated_argument_gives_its_memory(device: str) -> None:
    with ft.config(device=device):
        step = ft.jit(lambda p, g: p - 0.1 * g, donate_argnums=0)
        fresh = ft.jit(lambda n: fnp.full((1 << 18,), 1.0) * n)
        p, g = fresh(2.0), fresh(3.0)
        allocator = ft.devices(device)[0].allocator
        p = step(p, g)
        before = allocator.peak = allocator.in_use
        new = step(p, g)
        assert allocator.peak - before < 4096
        assert allocator.in_use == before
        assert p.is_deleted()
        with pytest.raises(ft.errors.DeletedArrayError, match="donated"):
            np.asarray(p)
        np.testing.assert_allclose(new, np.full(1 << 18, 1.4), rtol=1e-6)


@pytest.mark.parametrize("make", [lambda: fnp.array(0.0), lambda: fnp.zeros(5)])
def test_a_result_has_the_address_of_what_was_donated(make: Any) -> None:
    step = ft.jit(lambda x: x + 1, donate_argnums=0)
    for x in (make(), make() + 1):
        address = x.unsafe_buffer_pointer()
        assert step(x).unsafe_buffer_pointer() == address


def test_a_donated_array_that_no_result_can_take_is_told_once() -> None:
    step = ft.jit(lambda x, y, _: x + y.sum(), donate_argnums=(0, 1, 2))
    x, y = fnp.zeros(()), fnp.ones(3)
    with pytest.warns(UserWarning, match=r"not usable: \[f32\[3\]\]\. No") as told:
        step(x, y, y + 1)
    assert (len(told), told[0].filename) == (1, __file__)
    step(fnp.zeros(()), fnp.ones(3), fnp.ones(3))


BRANCHES: dict[str, Callable[..., Any]] = {
    "one is left": lambda x, y: (x.at[0].set(9.0), y),
    "the other is left": lambda x, y: (x, y.at[1].add(3.0)),
    "both are left": lambda x, y: (x, y),
    "they change places": lambda x, y: (y, x),
    "one is made anew": lambda x, y: (x[::-1] + y, y),
    "one becomes both": lambda x, y: (x, x),
    "a loop, a branch": lambda x, y: (
        lax.fori_loop(0, 3, lambda i, x: x.at[i].set(i), x),
        lax.cond(y[0] > 0, lambda y: y, lambda y: y.at[2].set(8.0), y),
    ),
}  # fmt: skip


@pytest.mark.parametrize("device", ["cpu", "interpreter"])
def test_branches_leave_values_where_they_are(device: str) -> None:
    given = table()[0], table()[1] - 2

    def loop(x: Any, y: Any) -> Any:
        def step(i: Any, pair: Any) -> Any:
            return lax.switch(i, [*BRANCHES.values()], *pair)

        return lax.fori_loop(0, len(BRANCHES), step, (x, y))

    def once(i: Any, x: Any, y: Any) -> Any:
        a, b = fnp.sort(x), fnp.sort(y)
        return lax.switch(i, [*BRANCHES.values()], a, b), lax.switch(
            i, [*BRANCHES.values()], x, b + 1
        )

    with ft.config(device=device):
        found = ft.jit(loop)(*given)
        with ft.disable_jit():
            wanted = loop(*map(fnp.asarray, given))
        np.testing.assert_array_equal(found, wanted)
        run = ft.jit(once)
        for i in range(len(BRANCHES)):
            with ft.disable_jit():
                wanted = once(i, *map(fnp.asarray, given))
            np.testing.assert_array_equal(run(i, *given), wanted)


def test_a_branch_in_a_loop_copies_nothing() -> None:
    def step(c: Any) -> Any:
        i, *pair = c
        first, other = (
            lambda x, y: (x.at[i].set(i), y),
            lambda x, y: (x, y.at[i].add(i)),
        )
        return i + 1, *lax.cond(i % 3 == 0, first, other, *pair)

    run = ft.jit(lambda *c: lax.while_loop(lambda c: c[0] < c[1].size, step, c))
    rows = np.ones(2000, np.float32), np.ones(2000, np.float32)
    (loop,) = loops(run.lower(0, *rows).program)
    (branch,) = [s for s in loop.body.steps if isinstance(s, RunBranch)]
    assert [len(b.steps) for b in branch.branches] == [1, 1]
    assert set(branch.results) < set(branch.operands)


def test_an_operand_that_branches_have_twice_is_not_copied() -> None:
    def step(i: Any, x: Any) -> Any:
        return lax.cond(i % 3 == 0, x, lambda x: x.at[i].set(i), x, lambda x: x)

    run = ft.jit(lambda n, x: lax.fori_loop(0, n, step, x))
    x = np.ones(2000, np.float32)
    (loop,) = loops(run.lower(5, x).program)
    (branch,) = [s for s in loop.body.steps if isinstance(s, RunBranch)]
    assert [len(b.steps) for b in branch.branches] == [0, 1]
    np.testing.assert_array_equal(
        run(5, x), np.where(np.arange(2000) == 3, 3, x - (np.arange(2000) == 0))
    )


def test_a_number_beside_a_traced_index_copies_nothing() -> None:
    def step(i: Any, x: Any) -> Any:
        return x.at[i, -1].set(i).at[1, :, i].add(1)

    def write(n: Any, x: Any) -> Any:
        return lax.fori_loop(0, n, step, x)

    x = np.zeros((5, 4, 600), np.float32)
    (loop,) = loops(ft.jit(write).lower(3, x).program)
    assert all(s.info.operations < x.size for s in loop.body.steps)
    for i in range(3):
        x[i, -1] = i
        x[1, :, i] += 1
    np.testing.assert_array_equal(ft.jit(write)(3, np.zeros_like(x)), x)
    with pytest.raises(IndexBoundsError):
        ft.jit(lambda i, x: x.at[i, 4].set(0))(0, x)


def test_a_donated_array_that_others_see_is_copied() -> None:
    step = ft.jit(lambda t: t * 2, donate_argnums=0)
    x = ft.jit(lambda t: t + 1)(np.zeros(1000, np.float32))
    view = np.asarray(x)
    y = step(x)
    np.testing.assert_array_equal(view, np.ones(1000))
    np.testing.assert_array_equal(y, np.full(1000, 2.0))
    given = np.ones(1000, np.float32)
    np.testing.assert_array_equal(step(given), np.full(1000, 2.0))
    np.testing.assert_array_equal(given, np.ones(1000))


def test_one_array_donated_and_given_again_is_right() -> None:
    step = ft.jit(lambda a, b: (a * 2 + b, b), donate_argnums=0)
    x = ft.jit(lambda t: t + 1)(np.zeros(1000, np.float32))
    total, same = step(x, x)
    np.testing.assert_array_equal(total, np.full(1000, 3.0))
    np.testing.assert_array_equal(same, np.ones(1000))


def test_donated_by_name_and_in_trees() -> None:
    step = ft.jit(
        lambda params, grads: ft.tree.map(lambda p, g: p - g, params, grads),
        donate_argnames="params",
    )
    make = ft.jit(lambda: {"w": fnp.ones((64, 64)), "b": fnp.ones(64)})
    params, grads = make(), make()
    new = step(params, grads)
    assert all(leaf.is_deleted() for leaf in ft.tree.leaves(params))
    assert not any(leaf.is_deleted() for leaf in ft.tree.leaves(grads))
    assert all(not np.any(leaf) for leaf in ft.tree.leaves(new))


def test_a_long_chain_of_updates_takes_one_table() -> None:
    def f(t: Any, i: Any) -> Any:
        t = t * 2
        for k in range(20):
            t = t.at[i + k].set(float(k))
        return t

    program = ft.jit(f).lower(np.zeros((1000, 64), np.float32), 3).program
    assert program.arena < 1000 * 64


# Several carries, of which each may become any other.

#: What a carry may become of three, element by element or not.
BECOMES: dict[str, Callable[[Any], Any]] = {
    "a": lambda c: c[0],
    "b": lambda c: c[1],
    "c": lambda c: c[2],
    "a + b": lambda c: c[0] * 0.5 + c[1] * 0.25,
    "sin b": lambda c: fnp.sin(c[1]),
    "b, turned": lambda c: c[1][::-1],
    "a, one of c": lambda c: c[0].at[1].set(c[2][0]),
}
CARRIES = st.lists(st.sampled_from(sorted(BECOMES)), min_size=3, max_size=3)


@pytest.mark.parametrize("device", DEVICES)
@settings(max_examples=6)
@example(after=["b", "c", "a"], ys=["a", "b", "c"], size=3)
@example(after=["b", "c", "a + b"], ys=["a"], size=5000)
@example(after=["b", "a", "c"], ys=["a", "a", "a"], size=3)
@given(after=CARRIES, ys=CARRIES, size=st.sampled_from([3, 5000]))
def test_carries_that_change_places(
    device: str, after: list[str], ys: list[str], size: int
) -> None:
    def step(carry: Any, _: Any) -> Any:
        return (
            tuple(BECOMES[name](carry) for name in after),
            tuple(BECOMES[name](carry) for name in ys),
        )

    def f(*carry: Any) -> Any:
        return lax.scan(step, carry, None, length=4)

    start = [np.arange(k, k + size, dtype=np.float32) % 7 for k in range(3)]
    carry: Any = tuple(fnp.asarray(x) for x in start)
    rows: list[Any] = []
    for _ in range(4):
        carry, y = step(carry, None)
        rows.append(y)
    want = [*carry, *(np.stack(column) for column in zip(*rows, strict=True))]
    with ft.config(device=device):
        got = ft.jit(f)(*start)
        with ft.config(disabled_rules={"promote_loops"}):
            again = ft.jit(f, donate_argnums=(0, 1, 2))(*start)
    for a, b, c in zip(want, *map(ft.tree.leaves, (got, again)), strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(c, a, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("device", DEVICES)
def test_two_donated_arguments_give_their_memory_to_what_reads_both(
    device: str,
) -> None:
    def step(m: Any, p: Any, g: Any) -> Any:
        m = 0.9 * m + g
        return m, p - 0.1 * m

    with ft.config(device=device):
        f = ft.jit(step, donate_argnums=(0, 1))
        fresh = ft.jit(lambda n: fnp.full((1 << 16,), 1.0) * n)
        g, m, p = fresh(3.0), *f(fresh(1.0), fresh(2.0), fresh(3.0))
        allocator = ft.devices(device)[0].allocator
        before = allocator.peak = allocator.in_use
        m, p = f(m, p, g)
        assert allocator.peak - before < 4096
        np.testing.assert_allclose(m, np.full(1 << 16, 6.51), rtol=1e-5)
        np.testing.assert_allclose(p, np.full(1 << 16, 0.959), rtol=1e-4)


def test_a_value_on_the_way_is_made_where_the_result_will_be() -> None:
    """It is of the same shape, and each element is read where it is overwritten."""
    x = np.random.default_rng(0).standard_normal((300, 200)).astype(np.float32)

    def softmax(x: Any) -> Any:
        e = fnp.exp(x - x.max(0))
        return e / e.sum(0)

    program = ft.jit(softmax, device="cpu").lower(x).program
    (result,) = program.outputs
    kernels = [s for s in program.steps if isinstance(s, RunKernel)]
    assert sum(result in step.slots for step in kernels) > 1
    assert program.arena < x.nbytes
    e = np.exp(x - x.max(0))
    for device in DEVICES:
        with ft.config(device=device):
            np.testing.assert_allclose(ft.jit(softmax)(x), e / e.sum(0), rtol=1e-5)

    def others(x: Any) -> Any:
        e = fnp.exp(x - x.max(0))
        s = e.sum(0)
        return e[::-1] / s, (e / s).astype(fnp.float16), e[:, :50] / s[:50]

    program = ft.jit(others, device="cpu").lower(x).program
    assert program.arena >= x.nbytes
    with ft.config(disabled_rules={"reuse_buffers"}):
        wanted = ft.jit(others, device="cpu")(x)
    for a, b in zip(ft.jit(others, device="cpu")(x), wanted, strict=True):
        np.testing.assert_array_equal(a, b)
