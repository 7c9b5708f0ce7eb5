"""What `test_processes.py` starts in several processes: all of `CHECKS`, in order."""

from __future__ import annotations

import copy
import ctypes
import gzip
import json
import os
import random
import re
import signal
import sys
import threading
import time
from functools import partial, reduce
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import Mock, patch

import numpy as np
import pytest

import ftrace as ft
import ftrace.numpy as fnp
from ftrace import P, errors, lax
from ftrace.backends.base import own_devices
from ftrace.backends.llvm.call.object_layout import offsets
from ftrace.backends.llvm.runtime import program_table
from ftrace.backends.llvm.runtime.runtime import runtime
from ftrace.custom_batching import custom_vmap
from ftrace.experimental import multihost_utils as hosts
from ftrace.ground import process_groups, processes
from ftrace.sharding import Mesh
from ftrace.trace.bind import bind_compound
from ftrace.trace.primitives.exchange import (
    FOLDS,
    UFUNCS,
    Exchange,
    Ranks,
    exchange_p,
)
from ftrace.transforms import shard_files

if sys.argv[1:] == ["never"] and os.environ["OMPI_COMM_WORLD_RANK"] == "1":
    time.sleep(30)
ft.distributed.initialize()
RANK, COUNT = ft.process_index(), ft.process_count()
LOCAL = ft.local_device_count()
CHECKS: list[Any] = []


def check(function: Any) -> Any:
    CHECKS.append(function)
    return function


def equal(found: Any, wanted: Any) -> None:
    np.testing.assert_array_equal(np.asarray(found), np.asarray(wanted))


def close(found: Any, wanted: Any, rtol: float = 1e-5, atol: float = 0) -> None:
    np.testing.assert_allclose(found, wanted, rtol=rtol, atol=atol)


def raises(kind: Any, match: str, function: Any) -> None:
    with pytest.raises(kind, match=re.escape(match)):
        function()


@check
def devices_have_numbers_and_processes() -> None:
    devices, own = ft.devices(), ft.local_devices()
    assert ft.device_count() == len(devices) == COUNT * LOCAL
    assert [d.id for d in devices] == [*range(COUNT * LOCAL)]
    assert [d.process_index for d in devices] == [
        i // LOCAL for i in range(len(devices))
    ]
    assert [d.process_index for d in own] == [RANK] * LOCAL
    assert ft.local_devices((RANK + 1) % COUNT)[0] not in own
    assert ft.process_indices() == [*range(COUNT)]
    raises(errors.ValueRangeError, "processes", lambda: ft.local_devices(COUNT))
    other = ft.local_devices((RANK + 1) % COUNT)[0]
    raises(errors.DeviceError, "not addressable", lambda: ft.device_put(1.0, other))
    raises(errors.DeviceError, "only be called once", ft.distributed.initialize)


@check
def values_of_all_processes_come_together() -> None:
    x = np.arange(3, dtype=np.float32) + 10 * RANK
    rows = np.arange(3) + 10 * np.arange(COUNT)[:, None]
    equal(hosts.process_allgather({"a": x})["a"], rows)
    equal(hosts.process_allgather(x, tiled=True), rows.ravel())
    equal(hosts.process_allgather(np.float64(RANK)), range(COUNT))
    alike = put(X, P())
    equal(hosts.process_allgather(alike, tiled=True), X)
    refused = errors.ValueRangeError, "only supports tiled=True"
    raises(*refused, lambda: hosts.process_allgather(alike))
    equal(hosts.broadcast_one_to_all(x), rows[0])
    equal(hosts.broadcast_one_to_all(x, RANK == COUNT - 1), rows[-1])
    hosts.sync_global_devices("here")
    hosts.assert_equal([np.ones(2), "a"])
    disagree = errors.ProcessError
    raises(disagree, "+int64[", lambda: hosts.process_allgather(np.arange(RANK + 1)))
    raises(disagree, "disagree in sync", lambda: hosts.sync_global_devices(f"{RANK}"))
    raises(
        disagree, "my words", lambda: hosts.assert_equal(np.full(2, RANK), "my words")
    )
    twice = errors.ValueRangeError
    raises(twice, "one process", lambda: hosts.broadcast_one_to_all(x, True))


@check
def sums_are_added_in_the_order_of_the_processes() -> None:
    everyone = process_groups.everyone()
    for size in (0, 1, 5, 5000, 100_003):
        parts = [
            np.random.default_rng(i).normal(size=size).astype(np.float32)
            for i in range(COUNT)
        ]
        wanted = parts[0]
        for part in parts[1:]:
            wanted = wanted + part
        equal(everyone.run("", everyone.combining(FOLDS["sum"], parts[RANK])), wanted)
        found = everyone.run("", everyone.combining(FOLDS["max"], parts[RANK]))
        equal(found, np.max(parts, 0))
    rows = np.arange(COUNT * 2.0).reshape(COUNT, 2) + 100 * RANK
    every = [np.arange(COUNT * 2.0).reshape(COUNT, 2) + 100 * i for i in range(COUNT)]
    equal(everyone.run("", everyone.exchanging(rows)), [x[RANK] for x in every])


@check
def few_bytes_of_many_processes_go_in_rounds() -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(process_groups, "MANY", 3)
        for members in ([*range(COUNT)], [*range(min(3, COUNT))]):
            if RANK not in members:
                continue
            group = process_groups.group(members)
            for shape in ((), (0,), (5,), (2, 3), (5000,)):
                parts = [np.full(shape, i + 0.5) + np.arange(5)[0] for i in members]
                equal(group.gather(parts[RANK]), parts)
                total = group.run("", group.combining(FOLDS["sum"], parts[RANK]))
                equal(total, np.sum(parts, 0))


def program_of(kind: str, axis: int = 0) -> Any:
    """A jitted program of an exchange between all processes."""
    ranks = Ranks("x", (tuple(range(COUNT)),))
    ring = [np.array([(RANK + i) % COUNT], np.int32) for i in (-1, 1)]
    tables = ring if kind == "permute" else []
    arg = Exchange(kind, ranks, axis)
    return ft.jit(lambda x: bind_compound(exchange_p, x, *tables, arg=arg)[0])


def exchanged(kind: str, parts: list[Any], axis: int) -> Any:
    """What NumPy makes of the operands of all."""
    if kind in FOLDS:
        return reduce(UFUNCS[kind], parts)
    if kind == "gather":
        return np.concatenate(parts, axis)
    if kind == "permute":
        return parts[RANK - 1]
    rows = [np.split(part, COUNT, axis)[RANK] for part in parts]
    return reduce(np.add, rows) if kind == "scatter" else np.concatenate(rows, axis)


@check
def native_code_exchanges_what_python_does() -> None:
    native = COUNT == 2 and ft.default_backend() == "cpu"
    assert (processes.native() is not None) == (COUNT > 1)
    for kind in (*FOLDS, "gather", "scatter", "all_to_all", "permute"):
        for dtype in ("float32", "bfloat16", "int32", "bool", "complex64"):
            for shape, axis in (((COUNT, 3), 0), ((2, COUNT, 3), 1), ((COUNT, 0), 0)):
                if kind == "permute":
                    shape = tuple(1 if i == axis else n for i, n in enumerate(shape))
                if dtype == "complex64" and kind in ("max", "min"):
                    continue
                draws = [
                    np.random.default_rng(i).normal(0, 9, shape) for i in range(COUNT)
                ]
                parts = [np.asarray(fnp.array(x).astype(dtype)) for x in draws]
                wanted, run = exchanged(kind, parts, axis), program_of(kind, axis)
                x = fnp.array(parts[RANK])
                for turn in range(7):
                    if turn == 3 and RANK == 1 and dtype == "float32":
                        time.sleep(0.02)  # longer than native code tries
                    found = run(x)
                    assert (found.shape, found.dtype) == (wanted.shape, wanted.dtype)
                    if dtype == "bfloat16" and kind in ("sum", "scatter"):
                        wide = np.asarray(found, np.float32), np.asarray(wanted, "f")
                        close(*wide, rtol=0.02, atol=0.2)  # which rounds once
                    else:
                        equal(found, wanted)
    if native:
        assert (own_devices("cpu")[0].native() is None) == (offsets() is None)
        run, x = program_of("sum"), fnp.arange(5.0)
        equal(run(x), 2 * x)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(program_table, "start_exchange", Mock(side_effect=ValueError))
            equal(run(x), 2 * x)
        with TemporaryDirectory() as folder, ft.profiler.trace(folder):
            equal(run(x), 2 * x)


@check
def each_sends_to_each_in_native_code() -> None:
    if ft.default_backend() != "cpu":
        return
    for kind in ("gather", "all_to_all", "permute"):
        for shape, axis in (((COUNT, 30), 0), ((3, COUNT), 1), ((COUNT, 1 << 18), 0)):
            if kind == "permute":
                shape = tuple(1 if i == axis else n for i, n in enumerate(shape))
            draws = [np.random.default_rng(i).normal(size=shape) for i in range(COUNT)]
            parts = [draw.astype("float32") for draw in draws]
            run, x = program_of(kind, axis), fnp.array(parts[RANK])
            equal(run(x), exchanged(kind, parts, axis))
            with pytest.MonkeyPatch.context() as patch:
                wrong = Mock(side_effect=ValueError)  # nothing is done in Python now
                patch.setattr(program_table, "start_exchange", wrong)
                for _ in range(3):
                    equal(run(x), exchanged(kind, parts, axis))
            if RANK == 0:  # the others do it natively meanwhile: the messages are those
                with TemporaryDirectory() as folder, ft.profiler.trace(folder):
                    equal(run(x), exchanged(kind, parts, axis))
            else:
                equal(run(x), exchanged(kind, parts, axis))


# Arrays and functions over a mesh of all devices. Each array is made of one that all
# processes know, and what comes of it is held against NumPy.

DEVICES = COUNT * LOCAL
X = np.arange(8 * DEVICES * 3, dtype=np.float32).reshape(8 * DEVICES, 3) / 7
LINE = ft.make_mesh((DEVICES,), ("x",))
GRID = ft.make_mesh((DEVICES // 2, 2), ("x", "y"))
#: Along x there are processes, along y both or devices of one.
MESHES = {"line": LINE, "grid": GRID}
ALONG = P("x")


def over(f: Any, into: Any = ALONG, out: Any = ALONG, mesh: Any = LINE, **more: Any):
    return ft.shard_map(f, mesh=mesh, in_specs=into, out_specs=out, **more)


def put(x: Any, spec: Any = ALONG, mesh: Any = LINE) -> Any:
    return ft.device_put(x, ft.NamedSharding(mesh, spec))


def all_of(x: Any) -> Any:
    return hosts.process_allgather(x, tiled=True) if not x.is_fully_replicated else x


@check
def arrays_without_elements_lie_in_processes() -> None:
    for shape in ((0, 3), (8 * DEVICES, 0)):
        x = put(np.zeros(shape, np.float32))
        assert x.shape == (x + 1).shape == all_of(x).shape == shape
        equal(all_of(ft.jit(lambda x: x.sum(1))(x)), np.zeros(shape[:1], np.float32))


@check
def what_is_done_at_once_is_done_together() -> None:
    x = put(X)
    close(all_of(fnp.pad(x, 1)), np.pad(X, 1))
    close(all_of(lax.associative_scan(fnp.add, x)), np.cumsum(X, 0), 1e-4)
    close(all_of(fnp.apply_along_axis(fnp.cumsum, 1, x)), np.cumsum(X, 1))
    close(all_of(lax.reduce(x, 0.0, lax.max, (0,))), X.max(0))
    close(all_of(x.at[3].get()), X[3])
    assert fnp.result_type(x, np.float64(1)) == fnp.result_type(X, np.float64(1))


@check
def what_shard_map_sends_is_told_as_it_is_sent() -> None:
    def total(x: Any) -> Any:
        return lax.fori_loop(0, 5, lambda i, y: y - lax.psum(y.sum(0), "x"), x)

    for function in (over(total), lambda x: over(total)(x) * 2):
        told = ft.explain_sharding(function)(put(X))
        assert "collectives: 1; each process receives" in told, told
        assert "psum over 'x' of f32[3] for shard_map" in told, told
        (entry,) = ft.explain(function)(put(X)).collectives
        assert (entry.kind, entry.times) == ("psum", 5)


@check
def arrays_have_parts_in_processes() -> None:
    for mesh in MESHES.values():
        for spec in (P("x"), P(None, None), P(mesh.axis_names), P(None, "x")):
            whole = np.arange(DEVICES**2 * 6.0).reshape(3 * DEVICES, 2 * DEVICES)
            sharding = ft.NamedSharding(mesh, spec)
            x = ft.device_put(whole, sharding)
            assert (x.shape, x.sharding, x.ndim) == (whole.shape, sharding, 2)
            assert not x.is_fully_addressable
            assert x.is_fully_replicated == (spec == P(None, None))
            assert len(x.global_shards) == DEVICES == len(x.sharding.device_set)
            assert {s.device for s in x.addressable_shards} == {*ft.local_devices()}
            for shard in x.addressable_shards:
                equal(shard.data, whole[shard.index])
            others = [s for s in x.global_shards if s.device.process_index != RANK]
            assert [s.data for s in others] == [None] * (DEVICES - LOCAL)
            equal(all_of(x), whole)
            equal(all_of(ft.device_put(x, ft.NamedSharding(mesh, P("x")))), whole)
    x = put(X)
    again = copy.deepcopy(x)
    assert again.sharding == x.sharding
    equal(all_of(again), X)
    assert "shape=" in repr(x)
    for read in (np.asarray, float, lambda x: x.tolist()):
        raises(errors.UnaddressableError, "spans non-addressable", lambda r=read: r(x))
    raises(errors.ShapeError, "divided", lambda: put(np.ones(DEVICES + 1)))
    differ = errors.ProcessError
    raises(differ, "device_put", lambda: put(np.full(DEVICES, RANK, np.float32)))


@check
def zeros_lie_as_the_array_that_they_are_like() -> None:
    flat = ft.make_mesh((1, DEVICES), ("one", "x"))
    x = put(X, P("x", "one"), flat)
    for like in (fnp.zeros_like, fnp.ones_like, lambda x: fnp.full_like(x, 3, int)):
        found = like(x)
        assert found.sharding == x.sharding
        equal(all_of(found), like(X))
    assert fnp.zeros_like(x, shape=(3,)).is_fully_replicated
    state = ft.optim.adam(0.1).init({"w": x})
    assert {leaf.sharding for leaf in ft.tree.leaves(state)[1:]} == {x.sharding}


@check
def collectives_are_those_of_one_process() -> None:
    n, x = DEVICES, put(X)
    parts = X.reshape(n, 8, 3)
    ring = [(i, (i + 1) % n) for i in range(n)]
    some = [(0, n - 1), (n - 1, 1)]
    shifted = np.zeros_like(parts)
    shifted[n - 1], shifted[1] = parts[0], parts[n - 1]
    swapped = parts.reshape(n, n, 8 // n, 3).transpose(1, 0, 2, 3)
    cases: list[tuple[Any, Any, Any]] = [
        (lambda v: v * 2, P("x"), X * 2),
        (lambda v: lax.psum(v, "x"), P(), parts.sum(0)),
        (lambda v: lax.pmean(v.astype("float16"), "x"), P(), parts.mean(0)),
        (lambda v: lax.psum(1, "x") + 0 * v, P("x"), np.full_like(X, n)),
        (lambda v: lax.pmax(v, "x"), P(), parts.max(0)),
        (lambda v: lax.pmin(v, "x"), P(), parts.min(0)),
        (lambda v: lax.all_gather(v, "x", tiled=True, to="invarying"), P(), X),
        (lambda v: lax.ppermute(v, "x", ring), P("x"), np.roll(X, 8, 0)),
        (lambda v: lax.ppermute(v, "x", some), P("x"), shifted.reshape(X.shape)),
        (lambda v: lax.axis_index("x") + 0 * v, P("x"), np.repeat(range(n), 24)),
        (lambda v: lax.psum_scatter(v, "x", tiled=True), P("x"), parts.sum(0)),
        (lambda v: lax.all_to_all(v, "x", 0, 0, tiled=True), P("x"), swapped),
    ]
    unchecked: list[tuple[Any, Any, Any]] = [
        (lambda v: lax.all_gather(v, "x", axis=1), P(), parts.transpose(1, 0, 2)),
        (lambda v: lax.pbroadcast(v, "x", 1), P(), parts[1]),
    ]
    for f, out, wanted in (*cases, *unchecked):
        run = over(f, out=out, check_vma=f in [case[0] for case in cases])
        for done in (run, ft.jit(run)):
            found = np.asarray(all_of(done(x)), np.float32)
            close(found, np.reshape(wanted, found.shape), rtol=1e-3)


@check
def keys_are_sent_as_their_numbers_are() -> None:
    keys, n = ft.random.split(ft.random.key(3), DEVICES * DEVICES), DEVICES
    data = np.asarray(ft.random.key_data(keys)).reshape(n, n, 2)
    cases: list[tuple[Any, Any]] = [
        (rolled, np.roll(data, 1, 0)),
        (lambda v: lax.all_gather(v, "x")[:, 0], np.tile(data[:, 0], (n, 1))),
        (lambda v: lax.all_to_all(v, "x", 0, 0, tiled=True), data.swapaxes(0, 1)),
    ]
    for f, wanted in cases:
        found = over(lambda v, f=f: ft.random.key_data(f(v)))(put(keys))
        equal(all_of(found), wanted.reshape(-1, 2))


@check
def axes_of_a_grid_are_summed_one_by_one() -> None:
    rows = X.reshape(DEVICES // 2, 8, 2, 3)
    x = put(rows.reshape(rows.shape[0] * 8, -1), P("x", "y"), GRID)
    for name, axis, out in (("x", 0, P(None, "y")), ("y", 2, P("x"))):
        found = over(lambda v, a=name: lax.psum(v, a), P("x", "y"), out, GRID)(x)
        wanted = rows.sum(axis)
        close(all_of(found), wanted.reshape(found.shape), rtol=1e-5)
    both = over(lambda v: lax.psum(v, ("x", "y")), P("x", "y"), P(), GRID)(x)
    close(both, rows.sum((0, 2)))
    names = over(lambda: lax.axis_index(("x", "y"))[None], (), P(("x", "y")), GRID)
    equal(all_of(names()), range(DEVICES))
    split = put(np.arange(4.0 * DEVICES), P(("y", "x")), GRID)
    equal(all_of(over(lambda v: v + 1, P(("y", "x")), P(("y", "x")), GRID)(split)),
          np.arange(4.0 * DEVICES) + 1)  # fmt: skip


@check
def gradients_go_through_processes() -> None:
    x, w = put(X), np.arange(1.0, 4, dtype=np.float32)

    def mean(w: Any, v: Any) -> Any:
        here = fnp.tanh(v @ w).sum() + lax.psum(w.sum(), "x") * lax.pmax(v, "x").sum()
        shared = lax.psum(here * w, "x")  # used by all, and in each part again
        turned = lax.ppermute(v, "x", [(i, (i + 1) % DEVICES) for i in range(DEVICES)])
        gathered = lax.all_gather(v[0], "x", to="invarying") * shared
        return lax.pmean((turned * v * shared).sum() + (gathered**2).mean(), "x")

    def loss(run: Any, w: Any, x: Any) -> Any:
        return run(w * 2, x) + (w**2).sum()

    parts = over(mean, (P(), P("x")), P())
    with ft.config(cpu_devices=DEVICES):
        alone = Mesh(own_devices("cpu"), ("x",))
    single = over(mean, (P(), P("x")), P(), alone)
    wanted = ft.grad(partial(loss, single), (0, 1))(w, X)
    grad = ft.grad(partial(loss, parts), (0, 1))
    for run in (grad, ft.jit(grad)):
        of_w, of_x = run(w, x)
        close(of_w, wanted[0], rtol=1e-4)
        close(all_of(of_x), wanted[1], rtol=1e-4, atol=1e-2)
        assert of_x.sharding == x.sharding
    same = [np.asarray(ft.jit(grad)(w, x)[0]).tobytes() for _ in range(3)]
    assert len({*same, *hosts.process_allgather(np.asarray(of_w)).reshape(COUNT, -1)
                .view("V12").ravel().tolist()}) == 1  # fmt: skip


def ruled(kind: Any, rule: Any) -> Any:
    """The square with a rule: how a cotangent, or a tangent, goes on."""
    f = kind(lambda x: x**2)
    if kind is ft.custom_vjp:
        f.defvjp(lambda x: (x**2, x), lambda x, ct: (2 * x * rule(ct),))
    else:
        f.defjvp(lambda x, t: (x[0] ** 2, 2 * x[0] * rule(t[0])))
    return f


def rolled(x: Any) -> Any:
    return lax.ppermute(x, "x", [(i, (i + 1) % DEVICES) for i in range(DEVICES)])


def solved(w: Any, v: Any) -> Any:
    def solve(f: Any, x: Any) -> Any:
        return lax.psum(v * w, "x")

    return lax.custom_root(lambda y: y - lax.psum(v * w, "x"), v, solve, lambda g, y: y)


def looped(w: Any, v: Any) -> Any:
    def body(c: Any, row: Any) -> Any:
        return lax.psum(c * v, "x") * 0.01, c * w + row

    c, rows = lax.scan(body, v, fnp.stack([w, w * w]))
    return c + rows.sum(0)


@custom_vmap
def scaled(w: Any, v: Any) -> Any:
    return w * w * v


@scaled.def_vmap
def scaled_rows(size: int, has: Any, w: Any, v: Any) -> Any:
    return scaled(w, v), True


#: Of what all have alike, w, and parts, v: rules, whose collectives are done later than
#: the function's, and bodies, in which w meets v.
GRADIENTS: dict[str, Any] = {
    "psum": lambda w, v: ruled(ft.custom_vjp, lambda ct: lax.psum(ct, "x"))(w * v),
    "of w": lambda w, v: ruled(ft.custom_vjp, lambda ct: ct * 3)(w) * v,
    "ppermute": lambda w, v: ruled(ft.custom_vjp, rolled)(w * v),
    "pshuffle": lambda w, v: ruled(
        ft.custom_vjp, lambda ct: lax.pshuffle(ct, "x", [*range(1, DEVICES), 0])
    )(w * v),
    "gathered": lambda w, v: ruled(
        ft.custom_vjp, lambda ct: lax.all_gather(ct, "x").sum(0)
    )(w * v),
    "jvp": lambda w, v: ruled(ft.custom_jvp, lambda t: lax.psum(t, "x"))(w * v),
    "jvp of w": lambda w, v: ruled(ft.custom_jvp, lambda t: t)(w) * v,
    "jvp, moved": lambda w, v: ruled(ft.custom_jvp, rolled)(w * v),
    "root": solved,
    "scan": looped,
    "while": lambda w, v: lax.fori_loop(0, 3, lambda i, c: c * w + v, v),
    "cond": lambda w, v: lax.cond(v[0, 0] > 3, fnp.multiply, lambda w, v: w + v, w, v),
    "cond of w": lambda w, v: v * lax.cond(v[0, 0] > 3, fnp.sin, fnp.cos, w),
    "sort": lambda w, v: fnp.sort(w * 2) * v,
    "remat": ft.checkpoint(lambda w, v: fnp.sin(w) * v * lax.psum(w, "x")),
    "vmap": scaled,
}


@check
def gradients_of_rules_and_bodies_are_those_of_one_process() -> None:
    x, w = put(X), np.arange(1.0, 4, dtype=np.float32)
    with ft.config(cpu_devices=DEVICES):
        alone = Mesh(own_devices("cpu"), ("x",))

    def loss(f: Any, mesh: Any, w: Any, v: Any) -> Any:
        run = over(f, (P(), P("x")), P("x"), mesh, check_vma=False)
        return (run(w, v) ** 2).sum()

    for name, f in GRADIENTS.items():
        wanted = ft.grad(partial(loss, f, alone), (0, 1))(w, X)
        grad = ft.grad(partial(loss, f, LINE), (0, 1))
        for run in (grad, ft.jit(grad)):
            of_w, of_x = run(w, x)
            for found, known in zip((of_w, all_of(of_x)), wanted, strict=True):
                np.testing.assert_allclose(found, known, 1e-4, 1e-3, err_msg=name)


@check
def what_is_around_shard_map_is_divided_by_rules() -> None:
    x, w = put(X), np.arange(1.0, 4, dtype=np.float32)
    unit = over(lambda v, w: v * w / lax.pmax(v, "x").max(), (P("x"), P()))
    total = over(lambda v: lax.psum(v.sum(0), "x"), out=P())

    def step(unit: Any, total: Any, x: Any, w: Any) -> Any:
        first = unit(fnp.sin(x) + 1, w * 2)
        again = unit(first**2 + x, total(first) / first.sum())
        return again * 3 + x, total(again), again.mean(0), w + 1

    def plain(v: Any, w: Any) -> Any:
        return v * w / v.reshape(DEVICES, -1, 3).max(0).max()

    found = ft.jit(partial(step, unit, total))(x, w)
    wanted = step(plain, lambda v: v.sum(0), X, w)
    assert found[0].sharding == x.sharding
    for mine, his in zip(found, wanted, strict=True):
        close(all_of(mine), his, rtol=1e-4)
    losses = [
        over(lambda v: lax.psum((v**2).sum(), "x"), out=P()),
        lambda v: (v**2).sum(),
    ]
    adam = ft.optim.adam(0.1)
    ends = []
    for loss, value in zip(losses, (x, X), strict=True):
        grad = ft.jit(lambda v, state, loss=loss: adam.update(ft.grad(loss)(v), state))
        ends.append(grad(value, adam.init(value)))
    many, one = map(ft.tree.leaves, ends)
    assert many[0].sharding == many[2].sharding == x.sharding
    for mine, his in zip(many, one, strict=True):
        close(all_of(mine), his, rtol=1e-5)


@check
def loops_and_branches_hold_collectives() -> None:
    x = put(X)

    def steps(v: Any) -> Any:
        def body(c: Any, t: Any) -> Any:
            return c + lax.psum(v.sum() * t, "x"), lax.pmax(v.max() * t, "x")

        total, peaks = lax.scan(body, 0.0, fnp.arange(1.0, 4))
        first = lax.axis_index("x") == 0
        chosen = lax.cond(first, lambda: lax.psum(v[0], "x"), lambda: v[0])
        count = lax.while_loop(
            lambda c: c[0] < lax.axis_index("x"),
            lambda c: (c[0] + 1, c[1] + lax.psum(1, "x")), (0, 0),
        )[0]  # fmt: skip
        return total + peaks.sum() + chosen[None] + count

    parts = X.reshape(DEVICES, 8, 3)
    wanted = np.repeat(6 * X.sum() + 6 * X.max() + parts[:, 0], 1, 0)
    wanted[0] = 6 * X.sum() + 6 * X.max() + parts[:, 0].sum(0)
    wanted += np.arange(DEVICES)[:, None]
    found = all_of(over(steps, check_vma=False)(x))
    close(found, wanted)


@check
def results_that_differ_need_a_name() -> None:
    x = put(X)
    raises(errors.ValueRangeError, "replication", lambda: over(fnp.sum, out=P())(x))
    first = over(lambda v: v[0], out=P(), check_vma=False)(x)
    equal(first, X[0])
    raises(errors.ShapeError, "evenly divisible", lambda: over(abs)(X[1:]))


@check
def programs_of_whole_arrays_are_divided_by_rules() -> None:
    for mesh in MESHES.values():
        x, w = put(X, P("x"), mesh), np.ones((3, 5), np.float32)
        doubled = x * 2 + 1
        assert doubled.sharding.spec[0] == "x"
        equal(all_of(doubled), X * 2 + 1)
        equal(x[1], X[1])
        norm = ft.jit(lambda x: (x / fnp.sqrt((x**2).sum(0)), x.mean()))
        unit, mean = norm(x)
        close(all_of(unit), X / np.sqrt((X**2).sum(0)))
        close(mean, X.mean())
        grad = ft.grad(lambda w, x: (fnp.tanh(x @ w) ** 2).mean())
        for run in (grad, ft.jit(grad)):
            close(run(w, x), run(w, X), rtol=1e-4, atol=1e-6)
        close(all_of(x @ w), X @ w)
        equal(all_of(fnp.sort(x, 0)), np.sort(X, 0))


def lies(found: Any, wanted: Any, spec: Any, mesh: Any = LINE) -> None:
    """Each device has its part of an array, and no more."""
    sharding = ft.NamedSharding(mesh, spec)
    assert found.sharding.is_equivalent_to(sharding, found.ndim), found.sharding
    for shard in found.addressable_shards:
        assert shard.data.shape == sharding.shard_shape(found.shape)
        close(shard.data, np.asarray(wanted)[shard.index])


@check
def programs_are_over_the_mesh_that_they_name() -> None:
    along, everywhere = ft.NamedSharding(LINE, ALONG), ft.NamedSharding(LINE, P())
    zero, key = X[:1] * 0, ft.random.key(0)
    drawn = ft.random.normal(key, X.shape)

    def held(x: Any) -> Any:
        return lax.with_sharding_constraint(x * 2, along)

    def in_loop(x: Any) -> Any:
        return lax.fori_loop(0, 3, lambda i, x: held(x), x)

    for value in (X, fnp.array(X), X.astype("float16")):
        for f in (ft.jit(held), ft.jit(lambda x: x * 2, in_shardings=along)):
            lies(f(value), np.asarray(value) * 2, ALONG)
        lies(ft.jit(lambda x: x, out_shardings=along)(value), value, ALONG)
        equal(all_of(ft.jit(in_loop)(value)), np.asarray(value) * 8)
        lies(
            ft.grad(lambda x: held(x).sum().astype("float32"))(value), X * 0 + 2, ALONG
        )
    made = ft.jit(partial(ft.random.normal, shape=X.shape), out_shardings=along)(key)
    lies(made, drawn, ALONG)
    lies(made + put(X), drawn + X, ALONG)
    close(ft.jit(fnp.sum)(made), drawn.sum(), rtol=1e-4)
    lies(over(lambda v: v + lax.psum(v[:1] * 0, "x"))(made), drawn, ALONG)
    places = {"w": along, "b": everywhere}
    tree = ft.jit(
        lambda: {"w": fnp.ones(8 * DEVICES), "b": 3.0}, out_shardings=places
    )()
    lies(tree["w"], np.ones(8 * DEVICES), ALONG)
    assert tree["b"].sharding == everywhere
    lies(ft.jit(lambda: over(lambda v: v * 2)(X))(), X * 2, ALONG)  # a constant
    lies(
        ft.jit(lambda: over(lambda: X[:8], (), ALONG)())(),
        np.tile(X[:8], (DEVICES, 1)),
        ALONG,
    )
    local = ft.NamedSharding(LINE.local_mesh, P())
    elsewhere = ft.device_put(zero, local)
    raises(errors.ShardingError, "incompatible", lambda: ft.jit(held)(elsewhere))
    raises(
        errors.ShapeError,
        "divided",
        lambda: ft.jit(lambda: fnp.ones(DEVICES + 1), out_shardings=along)(),
    )


@check
def shard_map_takes_arrays_that_are_not_over_its_mesh() -> None:
    x = fnp.array(X)
    double = over(lambda v: v * 2)
    transforms: list[Any] = [
        (double, X * 2), (ft.jit(double), X * 2),
        (ft.grad(lambda x: double(x).sum()), X * 0 + 2),
        (ft.jit(ft.grad(lambda x: double(x).sum())), X * 0 + 2),
        (lambda x: ft.jvp(double, (x,), (x,))[1], X * 2),
        (lambda x: ft.vjp(double, x)[1](x)[0], X * 2),
        (lambda x: ft.linearize(double, x)[1](x), X * 2),
        (lambda x: lax.scan(lambda c, _: (double(c), 0), x, length=2)[0], X * 4),
    ]  # fmt: skip
    for f, wanted in transforms:
        for value in (x, X, put(X)):
            lies(f(value), wanted, ALONG)
    lies(ft.vmap(double)(fnp.stack([x, x])), np.stack([X, X]) * 2, P(None, "x"))
    for number in (3.0, True, np.float32(3), np.int64(3), fnp.array(3.0)):
        for f in (over(lambda v: v * 2, P(), P()), over(lambda v: v[None] * 2, P())):
            for run in (f, ft.jit(f), lambda x, f=f: ft.jit(lambda: f(x))()):
                found = np.asarray(all_of(run(number)))
                equal(found, np.full(found.shape, 2 * np.asarray(number)))
    total = ft.jit(over(lambda v: lax.psum(v, "x"), out=P()))(x)
    assert total.sharding == ft.NamedSharding(LINE, P())
    assert "over Mesh('x'" in ft.explain_sharding(double)(x)


@check
def stages_are_of_the_program_of_all_processes() -> None:
    x, along = put(X), ft.NamedSharding(LINE, ALONG)
    struct = ft.ShapeDtypeStruct(X.shape, X.dtype, sharding=along)
    double, total = ft.jit(lambda x: x * 2), ft.jit(lambda x: x.sum())
    wrong = put(X, P(None, None))
    for lowered in (double.lower(x), double.lower(struct)):
        compiled = lowered.compile()
        assert compiled.input_shardings == ((along,), {})
        assert compiled.output_shardings == along
        for value in (x, X, fnp.array(X)):
            lies(compiled(value), X * 2, ALONG)
        raises(errors.ShardingError, "compiled for", lambda c=compiled: c(wrong))
    close(total.lower(struct).compile()(x), X.sum(), rtol=1e-4)
    assert ("sum along x" in total.lower(x).as_text()) == (COUNT > 1)
    for f in (lambda: fnp.array(X) * 2, lambda: x * 2, lambda: fnp.ones(8 * DEVICES)):
        made = ft.jit(f, out_shardings=along)
        lies(made(), np.asarray(all_of(f())), ALONG)
        lies(made.lower().compile()(), np.asarray(all_of(f())), ALONG)
    init = ft.jit(partial(ft.random.normal, shape=X.shape), out_shardings=along)
    drawn = init.lower(ft.random.key(0)).compile()(ft.random.key(0))
    lies(drawn, ft.random.normal(ft.random.key(0), X.shape), ALONG)
    held_from_outside = ft.jit(lambda y: y + x)
    lies(held_from_outside(X), X * 2, ALONG)
    held = ft.jit(lambda x: x * 2, in_shardings=along).lower(
        struct.update(sharding=None)
    )
    for value in (x, X):
        lies(held.compile()(value), X * 2, ALONG)
    part = ft.jit(over(lambda v: v * 2)).lower(X).compile()
    lies(part(X), X * 2, ALONG)
    memory = total.lower(struct).compile().memory_analysis()
    assert (memory.argument_size_in_bytes, memory.output_size_in_bytes) == (96, 4)


@check
def sizes_that_are_open_are_known_where_they_are_divided() -> None:
    f = ft.jit(lambda x, y: x * 2 + y.sum(), dynamic={0: {0: "n"}, 1: {0: "m"}})
    for n, m in ((1, 4), (2, 4), (2, 5)):
        rows, more = X[: n * DEVICES], np.arange(m, dtype=np.float32)
        lies(f(put(rows), more), rows * 2 + more.sum(), ALONG)
        equal(f(rows, more), rows * 2 + more.sum())


@check
def what_is_given_up_is_deleted() -> None:
    def step(p: Any, x: Any) -> Any:
        return p - x, p

    given_up = ft.jit(step, donate_argnums=0)
    ahead = given_up.lower(put(X), put(X)).compile()
    parts = ft.jit(over(step, ALONG, ALONG), donate_argnums=0)
    for run in (given_up, ahead, parts):
        p, x = put(X), put(X)
        _, same = run(p, x)
        assert p.is_deleted()
        assert not x.is_deleted()
        lies(same, X, ALONG)
    p = put(X)
    lies(ft.jit(fnp.add, donate_argnums=0)(p, p), X * 2, ALONG)
    raises(errors.DeletedArrayError, "donated to a jitted", lambda: p + 1)


@check
def meshes_of_the_same_devices_meet() -> None:
    flat = ft.make_mesh((DEVICES, 1), ("a", "b"))
    x = put(X)
    along, everywhere = P("a"), P(None, None)
    for spec, mesh in (
        (along, flat),
        (everywhere, flat),
        (P(("x", "y")), GRID),
        (P("y"), GRID),
    ):
        other = put(X, spec, mesh)
        for f in (fnp.add, ft.jit(fnp.add)):
            lies(f(x, other), X * 2, ALONG)
            equal(all_of(f(other, x)), X * 2)
            assert f(other, x).sharding.mesh == mesh
        assert "return c" in ft.explain_sharding(fnp.add)(x, other)
    wishes = ft.NamedSharding(LINE, ALONG), ft.NamedSharding(GRID, P("y"))
    for places in (wishes, wishes[::-1]):  # of which processes choose the same one
        made = ft.jit(lambda: (fnp.array(X), fnp.array(X) + 1), out_shardings=places)()
        equal(all_of(made[0]), X)
        equal(all_of(made[1]), X + 1)
        held = ft.jit(lambda x: (x, x + 1), out_shardings=places)(X)
        equal(all_of(held[0]), X)
        equal(all_of(held[1]), X + 1)
        assert [x.sharding for x in (*made, *held)] == [*places, *places]
    turned = put(X, ALONG, Mesh(np.array(ft.devices()[::-1]), ("x",)))
    raises(errors.ShardingError, "incompatible devices", lambda: x + turned)
    for run in (over(lambda v: v * 2), ft.jit(over(lambda v: v * 2))):
        raises(errors.ShardingError, "incompatible devices", lambda f=run: f(turned))


@check
def what_one_process_was_given_meets_no_other() -> None:
    x, own = put(X), ft.device_put(X + RANK, ft.local_devices()[0])
    assert own.committed
    for f in (fnp.add, ft.jit(fnp.add)):
        raises(errors.ShardingError, "incompatible devices", lambda f=f: f(x, own))
        equal(f(own, own), 2 * (X + RANK))
        lies(f(x, fnp.array(X)), X * 2, ALONG)
        with ft.default_device(ft.local_devices()[-1]):
            made = fnp.array(X)
        lies(f(x, made), X * 2, ALONG)


@check
def arrays_are_made_of_what_each_process_has() -> None:
    along, own = ft.NamedSharding(LINE, ALONG), slice(RANK * 8 * LOCAL, None)
    mine = X[own][: 8 * LOCAL]
    made = [
        ft.make_array_from_callback(X.shape, along, lambda index: X[index]),
        ft.make_array_from_process_local_data(along, mine),
        ft.make_array_from_process_local_data(along, mine, X.shape),
        ft.make_array_from_process_local_data(along, X, X.shape),
        ft.make_array_from_single_device_arrays(X.shape, along, [
            ft.device_put(mine[8 * i : 8 * i + 8], d)
            for i, d in enumerate(ft.local_devices())
        ]),
        hosts.host_local_array_to_global_array(mine, LINE, ALONG),
    ]  # fmt: skip
    for x in made:
        assert (x.shape, x.sharding) == (X.shape, along)
        equal(all_of(x), X)
    equal(hosts.global_array_to_host_local_array(made[0], LINE, ALONG), mine)
    parts = errors.ShapeError
    raises(parts, "a part", lambda: ft.make_array_from_process_local_data(
        along, mine[1:], X.shape))  # fmt: skip
    odd = X.shape[0] + 1, 3
    raises(parts, "a size for each axis", lambda: ft.make_array_from_process_local_data(
        along, mine, (*X.shape, 1)
    ))  # fmt: skip
    raises(parts, "cannot be divided", lambda: ft.make_array_from_process_local_data(
        along, mine, odd))  # fmt: skip
    few = errors.ValueRangeError
    raises(few, f"{LOCAL} devices", lambda: ft.make_array_from_single_device_arrays(
        X.shape, along, []))  # fmt: skip
    raises(few, "tiled=True", lambda: hosts.process_allgather(made[0]))
    whole = ft.jit(lambda x: x, out_shardings=ft.NamedSharding(LINE, P()))(made[0])
    equal(whole, X)
    equal(all_of(made[0].at[0].set(9.0))[0], [9.0] * 3)
    for f in (np.nonzero, np.unique, lambda x: x[x > 2]):
        same = f is np.nonzero
        mapped = {np.nonzero: fnp.nonzero, np.unique: fnp.unique}.get(f, f)
        found = mapped(made[0])
        rows = [[*v] if same else [v] for v in (found, f(X))]
        for one, other in zip(*rows, strict=True):
            equal(one, other)


@check
def pmap_is_over_the_devices_of_all_processes() -> None:
    rows = np.arange(LOCAL * 2.0, dtype=np.float32).reshape(LOCAL, 2) + 10 * RANK
    every = np.concatenate([rows - 10 * RANK + 10 * i for i in range(COUNT)])
    total = ft.pmap(lambda x: lax.psum(x, "i"), axis_name="i")
    found = total(rows)
    assert found.is_fully_addressable
    equal(found, np.tile(every.sum(0), (LOCAL, 1)))
    equal(total(found), np.tile(every.sum(0) * DEVICES, (LOCAL, 1)))
    equal(ft.pmap(lambda x, y: x * y, in_axes=(0, None))(rows, 3.0), rows * 3)
    places = ft.pmap(lambda x: lax.axis_index("i") + 0 * x, axis_name="i")(rows[:, 0])
    equal(places, np.arange(LOCAL) + LOCAL * RANK)

    def gradient(w: Any, x: Any) -> Any:
        return lax.pmean(ft.grad(lambda w: (w * x).sum() ** 2)(w), "i")

    step = ft.pmap(gradient, "i", in_axes=(None, 0), out_axes=None)
    close(step(2.0, rows), (4.0 * every.sum(1) ** 2).mean())
    raises(errors.ShardingError, "for each of", lambda: total(every))
    within = {"jit": ft.jit(total), "grad": ft.grad(lambda x: total(x).sum())}
    for name, f in within.items():
        raises(errors.UnsupportedError, f"within {name}: there", lambda f=f: f(rows))
    alone = ft.pmap(lambda x: lax.psum(x, "i"), "i", devices=ft.local_devices())
    equal(alone(rows), np.tile(rows.sum(0), (LOCAL, 1)))


@check
def edges_come_from_the_processes_beside() -> None:
    def filters(x: Any, w: Any) -> Any:
        y = lax.conv_general_dilated(x.T[None], w, (1,), "SAME")[0].T
        inner = y[:-2] - 2 * y[1:-1] + y[2:]
        return fnp.tanh(fnp.pad(inner, ((1, 1), (0, 0)))) + fnp.roll(x, 1, 0)[::-1]

    def loss(x: Any, w: Any) -> Any:
        return (filters(x, w) ** 2).sum() + (fnp.diff(x, axis=0) ** 3).mean()

    w = np.arange(27, dtype=np.float32).reshape(3, 3, 3) / 27 - 0.5
    for mesh in MESHES.values():
        x = put(X, P(mesh.axis_names), mesh)
        close(all_of(ft.jit(filters)(x, w)), filters(X, w), rtol=1e-4, atol=1e-5)
        running = ft.jit(lambda x: fnp.cumsum(x, 0))(x)
        assert running.sharding == x.sharding
        close(all_of(running), np.cumsum(X, 0), rtol=1e-5)
        found, wanted = [ft.grad(loss, (0, 1))(v, w) for v in (x, X)]
        close(all_of(found[0]), wanted[0], rtol=1e-3, atol=1e-3)
        close(found[1], wanted[1], rtol=1e-3, atol=1e-3)
    text, told = [f(filters)(put(X), w) for f in (ft.explain_sharding, ft.explain)]
    assert "all_gather" not in text
    assert "ppermute over 'x'" in text
    assert all(str(entry) in text for entry in told.collectives)
    assert "a device of Mesh('x'" in str(told)
    assert told.seconds > 0


@check
def explain_tells_what_a_process_runs_of_shard_map() -> None:
    """Nothing of it runs: the others would have to."""

    def shifted(x: Any) -> Any:
        table = [(i, (i + 1) % (COUNT * LOCAL)) for i in range(COUNT * LOCAL)]
        return lax.ppermute(x, "x", table)

    f = ft.shard_map(shifted, mesh=LINE, in_specs=P("x"), out_specs=P("x"))
    told = ft.explain(f)(put(X, P("x")))
    names = [part.name for part in told.kernels]
    assert any("permute along x" in name for name in names), names
    assert told.seconds is None
    assert told.results == X.nbytes // COUNT


@check
def sums_of_16_bits_are_rounded_once() -> None:
    for dtype, large in (("bfloat16", 256), ("float16", 2048)):
        total = large + DEVICES - 1  # one by one they would vanish
        x = np.array([large] + [1] * (DEVICES - 1)).astype(dtype)
        found = over(lambda v: lax.psum(v, "x"), P("x"), P())(put(x, P("x")))
        assert found.dtype == x.dtype
        equal(found, np.array([total]).astype(dtype))
        assert float(found[0]) > large


@check
def loops_around_shard_map_carry_parts() -> None:
    def turn(v: Any) -> Any:
        ring = [(i, (i + 1) % DEVICES) for i in range(DEVICES)]
        return lax.ppermute(v, "x", ring) + v

    def scanned(step: Any, x: Any) -> Any:
        def body(c: Any, w: Any) -> Any:
            c = c * 0.5 + step(c) * w
            return c, c + 1

        return lax.scan(body, x, fnp.arange(3.0))

    def counted(step: Any, x: Any) -> Any:
        def body(state: Any) -> Any:
            return state[0] + 1, step(state[1]) / 2

        return lax.while_loop(lambda state: state[0] < 3, body, (0, x))[1]

    def read(step: Any, x: Any) -> Any:  # its test needs all of it
        return lax.while_loop(lambda c: c.sum() < 1e4, lambda c: step(c) + 1, x)

    with ft.config(cpu_devices=DEVICES):
        alone = Mesh(own_devices("cpu"), ("x",))
    for f in (scanned, counted, read):
        jitted = ft.jit(partial(f, over(turn)))
        found = jitted(put(X))
        wanted = f(over(turn, mesh=alone), X)
        for one, other in zip(
            ft.tree.leaves(found), ft.tree.leaves(wanted), strict=True
        ):
            close(all_of(one), other)
        if f is not read:
            with patch.object(
                process_groups.Group, "gather", side_effect=AssertionError
            ):
                jitted(put(X))


@check
def branches_around_shard_map_take_parts() -> None:
    ring = [(i, (i + 1) % DEVICES) for i in range(DEVICES)]

    def turn(v: Any) -> Any:
        return lax.ppermute(v, "x", ring) + v

    def either(step: Any, n: Any, x: Any, y: Any) -> Any:
        return lax.cond(n > 1, lambda x, y: step(x) * 2, lambda x, y: y - x, x, y)

    def one_of(step: Any, n: Any, x: Any, y: Any) -> Any:
        def twice(x: Any) -> Any:
            return step(step(x)), fnp.float32(2)

        ways = [lambda x: (x, n * 1.0), twice, lambda x: (0 * x, fnp.float32(1))]
        return lax.switch(n, ways, x + y)

    def nested(step: Any, n: Any, x: Any, y: Any) -> Any:
        return lax.fori_loop(0, 3, lambda i, c: either(step, n * i, c, y), x)

    def read(step: Any, n: Any, x: Any, y: Any) -> Any:  # one branch needs all of it
        return lax.cond(n > 1, step, lambda x: x - x.mean(), x)

    with ft.config(cpu_devices=DEVICES):
        alone = Mesh(own_devices("cpu"), ("x",))
    x, y = put(X), put(X[::-1].copy())
    for f in (either, one_of, nested, read):
        jitted = ft.jit(partial(f, over(turn)))
        for n in range(3):
            found = ft.tree.leaves(jitted(n, x, y))
            wanted = ft.tree.leaves(f(over(turn, mesh=alone), n, X, X[::-1]))
            for one, other in zip(found, wanted, strict=True):
                close(all_of(one), other, rtol=1e-4)
            if f is not read:
                with patch.object(
                    process_groups.Group, "gather", side_effect=AssertionError
                ):
                    jitted(n, x, y)

        def loss(step: Any, x: Any, y: Any, f: Any = f) -> Any:
            return (ft.tree.leaves(f(step, 2, x, y))[0] ** 2).sum()

        found = ft.jit(ft.grad(partial(loss, over(turn))))(x, y)
        wanted = ft.grad(partial(loss, over(turn, mesh=alone)))(X, X[::-1])
        close(all_of(found), wanted, rtol=1e-3)


@check
def programs_must_be_the_same_everywhere() -> None:
    x = put(X)
    wrong = over(lambda v: lax.psum(v[: 1 + RANK], "x"), out=P())
    raises(errors.ProcessError, "disagree in a program", lambda: wrong(x))
    factors = ft.jit(lambda x: x.sum() * (2.0 + RANK))
    raises(errors.ProcessError, "-  i:f32[] = mul h", lambda: factors(x))


def layers(count: int, size: int) -> tuple[Any, Any]:
    """A step of training layers, and its arguments: the data are divided."""
    random = np.random.default_rng(0)
    w = random.normal(size=(count, size, size)).astype(np.float32) / size**0.5
    params = [(row, np.zeros(size, np.float32)) for row in w]
    x = put(random.normal(size=(size * DEVICES, size)).astype(np.float32))

    def loss(params: Any, x: Any) -> Any:
        for w, b in params:
            x = fnp.tanh(x @ w + b)
        return (x**2).mean()

    def step(params: Any, x: Any) -> Any:
        value, grads = ft.value_and_grad(loss)(params, x)
        return value, ft.tree.map(lambda p, g: p - 0.1 * g, params, grads)

    return step, (params, x)


def numbers(tree: Any) -> list[bytes]:
    return [np.asarray(x).tobytes() for x in ft.tree.leaves(tree)]


@check
def gradients_are_sent_while_others_are_computed() -> None:
    step, args = layers(4, 96)
    jitted = ft.jit(step)
    found = {*map(tuple, (numbers(jitted(*args)) for _ in range(2)))}
    with ft.config(disabled_rules={"overlap_exchanges"}):
        found.add(tuple(numbers(ft.jit(lambda *args: step(*args))(*args))))
    assert len(found) == 1  # the same bits, whenever they were sent
    with TemporaryDirectory() as folder:
        with ft.profiler.trace(folder):
            jitted(*args)
        (file,) = Path(folder).rglob("*.trace.json.gz")
        events = json.loads(gzip.decompress(file.read_bytes()))["traceEvents"]
    events = [e for e in events if e["ph"] == "X"]
    assert {e["pid"] for e in events} == {ft.process_index()}
    ran = [e["name"] for e in events if e["cat"] == "run"]
    begun = [name[6:] for name in ran if name.startswith("start")]
    sent = [e["name"] for e in events if e["cat"] == "collective"]
    assert len(begun) > 3
    assert {*begun} <= {*sent}
    for name in begun[:-2]:
        between = ran[ran.index(f"start {name}") + 1 : ran.index(f"wait {name}")]
        assert any(n.startswith("reduce_sum_mul") for n in between), ran


@check
def what_was_started_is_finished_where_a_program_ends_by_an_exception() -> None:
    x = put(np.ones((DEVICES, 40_000), np.float32))
    wrong = [True]

    def tell(v: Any) -> Any:
        if wrong[0]:
            raise ValueError("in between")
        return np.float32(1)

    def f(v: Any) -> Any:
        total = lax.psum(v, "x")
        like = ft.ShapeDtypeStruct((), np.float32)
        return total + ft.pure_callback(tell, like, v[0, 0], vmap_method="sequential")

    run = ft.jit(over(f, out=P(), check_vma=False))
    for wrong[0] in (True, False, True, False):
        if wrong[0]:
            raises(ValueError, "in between", lambda: run(x))
        else:
            close(run(x), np.full((1, 40_000), DEVICES + 1))


# Files. `FOLDER` has a tree that one process has saved: `of_one`.

FOLDER = Path(os.environ.get("FOLDER", "."))


def state(mesh: Any) -> dict[str, Any]:
    x = np.arange(DEVICES * 64 * 16.0).reshape(DEVICES * 8, 128)
    return {
        "rows": put(x, ALONG, mesh), "both": put(x, P("x", mesh.axis_names[1:]), mesh),
        "columns": put(x.astype("bfloat16"), P(None, mesh.axis_names[-1]), mesh),
        "all": put(x, P(), mesh), "step": 3, "own": [x[0]], "key": ft.random.key(1),
    }  # fmt: skip


def hold(found: Any, wanted: Any) -> None:
    for name in ("rows", "both", "columns", "all"):
        assert found[name].dtype == wanted[name].dtype
        equal(all_of(found[name]), all_of(wanted[name]))
    equal(found["own"][0], wanted["own"][0])
    equal(ft.random.key_data(found["key"]), ft.random.key_data(wanted["key"]))


def read_bytes() -> int:
    text = Path("/proc/self/io").read_text()
    return int(re.findall(r"rchar: (\d+)", text)[0])


@check
def trees_over_processes_are_saved_in_parts() -> None:
    folder, tree = FOLDER / f"of_{COUNT}", state(GRID)
    ft.save(folder, tree)
    sizes = [file.stat().st_size for file in folder.glob("*.safetensors")]
    own = sum(x.nbytes for x in (tree["rows"], tree["both"], tree["columns"]))
    every = own + tree["all"].nbytes
    assert len(sizes) == COUNT
    assert every <= sum(sizes) <= every + COUNT * 4096  # each part once
    assert max(sizes) < 0.7 * sum(sizes)
    for mesh in (GRID, LINE, ft.make_mesh((2, DEVICES // 2), ("x", "y"))):
        found = ft.load(folder, like=state(mesh))
        hold(found, tree)
        assert found["rows"].sharding == state(mesh)["rows"].sharding
    found = ft.load(folder, GRID)
    assert found["both"].sharding == tree["both"].sharding
    assert found["step"] == 3
    rows = ft.load(FOLDER / "of_one", {"x": LINE, "y": ft.NamedSharding(LINE, ALONG)})
    equal(all_of(rows["x"]), all_of(rows["y"]))
    hold(ft.load(folder), tree)


@check
def a_process_reads_what_its_devices_need() -> None:
    along = ft.NamedSharding(LINE, ALONG)
    before = read_bytes()
    x = ft.load(FOLDER / "of_one", along)["x"]
    count = read_bytes() - before
    assert x.local.nbytes == x.nbytes // COUNT
    assert 2 * x.local.nbytes <= count < 2 * x.local.nbytes + 8192  # x and y


@check
def checkpoints_of_processes_are_whole_or_told() -> None:
    disagree = errors.ProcessError
    unequal = {"w": np.ones(3 + RANK), "b": np.ones(2)}
    raises(disagree, "disagree in save", lambda: ft.save(FOLDER / "no", unequal))
    unequal = {"w": np.ones(3), "b": np.full(2, RANK)}
    raises(disagree, "+b: elements", lambda: ft.save(FOLDER / "no", unequal))
    raises(disagree, "folder 0", lambda: ft.save(FOLDER / f"{RANK}", unequal))
    tree = state(GRID)
    with ft.Checkpoints(FOLDER / f"steps_{COUNT}", keep=2) as checkpoints:
        for step in range(4):
            checkpoints.save(step, tree | {"step": step})
        assert checkpoints.latest() == 3
        assert checkpoints.steps() == [2, 3]
        hold(checkpoints.restore(like=tree), tree)
        with pytest.MonkeyPatch.context() as patch:
            if RANK == 1:
                full = OSError(28, "No space left on device")
                patch.setattr(shard_files, "write_safetensors", Mock(side_effect=full))
            checkpoints.save(4, tree)
            who = f"process 1 of {COUNT} could not write its part"
            told = "it cannot be written: No space" if RANK == 1 else who
            raises(errors.FileFormatError, told, checkpoints.wait)
        assert checkpoints.latest() == 3


@check
def arrays_are_made_of_the_parts_of_each_process() -> None:
    for mesh in MESHES.values():
        sharding = ft.NamedSharding(mesh, P(mesh.axis_names[-1]))
        x = ft.make_array_from_callback(X.shape, sharding, lambda i: X[i])
        equal(all_of(x), X)


def is_left(way: str, kind: str) -> None:
    """Process 0 leaves an exchange; what comes later is not written into its arrays."""
    if kind == "by Python":
        processes.world.native = None
    own_devices("cpu")[0].make_native()  # which also calls programs
    x = fnp.full(1 << 20, 1.0 + RANK, "float32")
    run = program_of("sum")
    for turn in range(40):
        if turn == 20 and way == "late" and RANK == 0:
            ft.config.update("distributed_timeout", 1)
        assert run(x)[0] == 3
    left = FOLDER / "left"
    if RANK == 1:
        while not left.exists():  # the other one has left, and has used its memory
            time.sleep(0.02)
        equal(run(x), np.full(x.shape, 3, "float32"))
        return
    if way == "interrupt":
        threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
    with pytest.raises((errors.ProcessError, KeyboardInterrupt)) as caught:
        run(x)
    assert (caught.type is KeyboardInterrupt) == (way == "interrupt")
    fill = ft.jit(lambda i: fnp.full(x.shape, i, "float32"))
    others = [fill(np.float32(i)) for i in range(8)]
    left.touch()
    end = time.monotonic() + 2
    while time.monotonic() < end:
        processes.check()  # MPI does its work where it is asked
        time.sleep(1e-3)
    for i, other in enumerate(others):
        equal(other, np.full(x.shape, i, "float32"))
    used = own_devices("cpu")[0].memory.in_use
    for function in (*[partial(run, x)] * 9, partial(program_of("max"), x)):
        raises(errors.ProcessError, "start the program anew", function)
    assert own_devices("cpu")[0].memory.in_use <= used  # what is refused keeps nothing


def raises_in_a_loop(kind: str) -> None:
    """Process 0 leaves a loop; what it had started to get is not written elsewhere."""
    if kind == "by Python":
        processes.world.native = None
    calls: list[Any] = []

    def told(x: Any) -> Any:
        calls.append(x)
        if len(calls) == 7 and RANK == 1:
            time.sleep(1)  # before what it sends in the next iteration
        if len(calls) == 8 and RANK == 0:
            raise KeyboardInterrupt
        return np.asarray(x)

    def looped(w: Any, v: Any) -> Any:
        def body(c: Any) -> Any:
            i, a, b = c
            total = lax.psum(a, "x")  # kept for the derivative
            t = ft.pure_callback(told, ft.ShapeDtypeStruct((), "float32"), b.sum())
            b = fnp.tanh(b @ b.T @ b) * lax.stop_gradient(t)
            return i + 1, total * w + b, b

        return lax.while_loop(lambda c: c[0] < 5, body, (0, v, v))[1]

    run = over(looped, (P(), ALONG), check_vma=False)
    step = ft.jit(ft.grad(lambda w, v: (run(w, v) ** 2).sum()))
    x = put(np.ones((512 * DEVICES, 512), np.float32))
    stages = step.lower(np.float32(0.5), x).compile()
    assert stages.program.overlaps
    step(np.float32(0.5), x)
    with pytest.raises(errors.ProcessError if RANK else KeyboardInterrupt):
        step(np.float32(0.5), x)
    if RANK == 0:
        runtime().forget_chunks()
        own: Any = ctypes.CDLL(None).malloc
        own.restype = ctypes.c_void_p
        memory = [(own(n << 18), n << 18) for n in range(1, 9) for _ in range(4)]
        for place, nbytes in memory:
            ctypes.memset(place, 7, nbytes)
        end = time.monotonic() + 2
        while time.monotonic() < end:
            processes.check()  # MPI does its work where it is asked
            time.sleep(1e-3)
        for place, nbytes in memory:
            same = ctypes.string_at(place, nbytes) == b"\7" * nbytes
            assert same


def gets_too_much(kind: str) -> None:
    """Process 1 sends more than process 0 has room for."""
    if kind == "by Python":
        processes.world.native = None
    run, x = program_of("sum"), fnp.arange(5.0)
    for _ in range(3):
        run(x)
    group = process_groups.everyone()
    if RANK == 1:
        into, more = np.empty(5, "float32"), np.ones(9, "float32")
        group.run("", group.sending([(more, 0, 0)], [(into, 0, 0)]))
        equal(into, x)
        return
    with pytest.raises(errors.ProcessError) as caught:
        run(x)
    error: Any = caught.value
    assert "in sum along x: 2 processes, axis 0: MPI_ERR_TRUNCATE" in str(error), error
    assert "in_each_process.py" in str(error), error
    assert type(error.__cause__).__name__ == "Exception"  # MPI's own
    raises(errors.ProcessError, "MPI_ERR_TRUNCATE", lambda: run(x))


def goes_wrong(way: str) -> None:
    """Process 1 does not do what process 0 does."""
    total = partial(program_of("sum"), fnp.arange(5.0))
    for _ in range(9):
        total()  # native code exchanges, and calls, from some time on
    if RANK == 1 and way == "raises":
        raise ValueError("not this one")
    if RANK == 1 and way == "leaves":
        sys.exit()
    if RANK == 1 and way == "sleeps":
        time.sleep(30)
    if RANK == 0 and way == "sleeps":  # where MPI itself would wait for ever, too
        ft.config.update("distributed_timeout", 1)
        meet, agree = (
            partial(process_groups.group, (1, 0)),
            partial(hosts.assert_equal, 1),
        )
        for function in (meet, agree, total):
            with pytest.raises(errors.ProcessError) as caught:
                function()
            sys.stdout.write(f"{caught.value}\n")
        sys.exit()
    if way == "unequal":  # the last batch of one process is smaller
        sharding = ft.NamedSharding(ft.make_mesh((2,), ("x",)), P("x"))
        own = [np.ones(4, "float32")] * 9 + [np.ones(4 - RANK, "float32")]
        centred = ft.jit(lambda x: x * 2 - x.mean())
        for rows in own:
            centred(ft.make_array_from_process_local_data(sharding, rows))
    if way == "reversed":
        devices = np.array(ft.devices()[:: 1 - 2 * RANK])
        ft.device_put(np.ones(4), ft.NamedSharding(Mesh(devices, "x"), P("x")))
    if way == "fails":
        if RANK == 1:
            raise ValueError("not in the program")
        total()
    if way == "interrupted":
        if RANK == 1:
            time.sleep(30)
        threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
        begin = time.perf_counter()
        try:
            total()
        finally:
            soon = time.perf_counter() - begin < 10
            sys.stdout.write(f"ended {'soon' if soon else 'late'}\n")
    if way == "killed":
        checkpoints = ft.Checkpoints(FOLDER, keep=2)
        for step in range(9):
            checkpoints.save(step, state(GRID) | {"step": step})
            if step == 5 and RANK == 1:
                time.sleep(random.uniform(0, 0.02))
                os.kill(os.getpid(), signal.SIGKILL)
    hosts.process_allgather(np.arange(3 + RANK * (way == "differs")))
    hosts.sync_global_devices("in vain")


LEFT = {
    "late": partial(is_left, "late"), "interrupt": partial(is_left, "interrupt"),
    "truncated": gets_too_much, "loop": raises_in_a_loop,
}  # fmt: skip
if sys.argv[1:] and sys.argv[1] in LEFT:
    way, kind = sys.argv[1:]
    LEFT[way](kind)
    CHECKS.clear()
elif sys.argv[1:] == ["direct"]:
    CHECKS[:] = [each_sends_to_each_in_native_code]
elif sys.argv[1:]:
    goes_wrong(sys.argv[1])
for function in CHECKS:
    try:
        function()
    except Exception:
        sys.stderr.write(f"{function.__name__} does not hold\n")
        raise
sys.stdout.write("all hold\n")
