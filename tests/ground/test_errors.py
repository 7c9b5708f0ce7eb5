"""Wrong input gives an exception of ours: what was asked, what came, which line."""

from __future__ import annotations

import builtins
import contextlib
import functools
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ftrace as ft
import ftrace.numpy as fnp
from ftrace import errors, lax
from ftrace.backends.base import get_device
from tests.support.refusals import refuses

F = Callable[..., Any]
X = fnp.ones((2, 3))
Y = fnp.ones((4, 5))
V = fnp.arange(3)


def nested(depth: int) -> Any:
    """A list in a list in a list, and so on."""
    return functools.reduce(lambda inner, _: [inner], range(depth), 1)


IMAGE, FILTERS = fnp.ones((1, 3, 8, 8)), fnp.ones((4, 3, 3, 3))
conv = lax.conv_general_dilated

#: What is wrong, in which exception it ends, and what its message must say.
BAD_SHAPES: list[tuple[F, type[Exception], str]] = [
    # elementwise
    (lambda x, y: x + y, errors.ShapeError, r"add: shapes \(2, 3\) and \(4, 5\)"),
    (lambda x, y: fnp.where(x > 0, y, 1), errors.ShapeError, "where: .*broadcast"),
    (lambda x, y: fnp.maximum(x, y), errors.ShapeError, "maximum: .*broadcast"),
    (lambda x, y: lax.add(x, y), errors.ShapeError, r"\(2, 3\) and \(4, 5\)"),
    (lambda x, y: lax.select(x > 0, y, y), errors.ShapeError, "the predicate must"),
    # reductions and axes
    (lambda x, y: fnp.sum(x, axis=2), errors.AxisError, "axes are from -2 to 1"),
    (lambda x, y: fnp.sum(x, axis=(0, -2)), errors.AxisError, "sum: duplicate"),
    (lambda x, y: fnp.mean(x, axis="a"), errors.AxisNameError, "mean: unbound axis"),
    (lambda x, y: fnp.flip(x, axis="a"), errors.ArgumentError, "must be an integer"),
    (lambda x, y: fnp.argmax(x, axis=5), errors.AxisError, "argmax: axis 5"),
    (lambda x, y: fnp.cumsum(x, axis=3), errors.AxisError, "cumsum: axis 3"),
    (lambda x, y: fnp.max(x[:0]), errors.ValueRangeError, "max has no identity"),
    (lambda x, y: ft.nn.softmax(x, axis=4), errors.AxisError, "softmax: axis 4"),
    # movement
    (lambda x, y: x.reshape(4, 2), errors.ShapeError, r"size 6.*\(4, 2\) \(size 8\)"),
    (lambda x, y: x.reshape(-1, -1), errors.ShapeError, "at most one size may be -1"),
    (lambda x, y: x.reshape(2.0, 3), errors.ArgumentError, "must be an integer"),
    (lambda x, y: x.transpose(0, 0), errors.AxisError, "transpose: duplicate"),
    (lambda x, y: x.transpose(0, 1, 2), errors.AxisError, "transpose: axis 2"),
    (lambda x, y: fnp.moveaxis(x, 0, 4), errors.AxisError, "moveaxis: axis 4"),
    (lambda x, y: fnp.expand_dims(x, 5), errors.AxisError, "expand_dims: axis 5"),
    (lambda x, y: fnp.squeeze(x, 0), errors.ShapeError, "only axes of size 1"),
    (lambda x, y: fnp.broadcast_to(x, (3, 2)), errors.ShapeError, "reshape it first"),
    (lambda x, y: fnp.flip(x, 4), errors.AxisError, "flip: axis 4"),
    (lambda x, y: fnp.roll(x, 1, 4), errors.AxisError, "roll: axis 4"),
    (lambda x, y: fnp.pad(x, ((1, 1),) * 3), errors.ShapeError, "a pair per axis"),
    (lambda x, y: fnp.pad(x, 1, mode="no"), errors.ValueRangeError, "'constant'"),
    (lambda x, y: fnp.repeat(x, np.arange(3), 0), errors.ShapeError, "axis of size 2"),
    (lambda x, y: fnp.tril(x[0]), errors.ShapeError, "at least 2 axes"),
    (lambda x, y: fnp.diagonal(V), errors.ShapeError, "diagonal: the array must have"),
    (lambda x, y: fnp.trapezoid(3.0), errors.AxisError, "trapezoid: axis -1"),
    (lambda x, y: fnp.zeros((-1,)), errors.ShapeError, "must not be negative"),
    (lambda x, y: fnp.empty_like(x, shape=-1), errors.ShapeError, "empty_like: sizes"),
    (lambda x, y: fnp.ones((1 << 40,) * 2), errors.ShapeError, r"2\*\*63 elements"),
    # joining and splitting
    (lambda x, y: fnp.concatenate([x, y]), errors.ShapeError, "only along axis 0"),
    (lambda x, y: fnp.concatenate([]), errors.ValueRangeError, "at least one array"),
    (lambda x, y: fnp.concatenate([x, x], 3), errors.AxisError, "concatenate: axis 3"),
    (lambda x, y: fnp.concatenate([1.0, 2.0]), errors.ShapeError, "use stack"),
    (lambda x, y: fnp.stack([x, y]), errors.ShapeError, "stack: all shapes must be"),
    (lambda x, y: fnp.split(x, 2, 1), errors.ShapeError, "use array_split"),
    # contractions
    (lambda x, y: x @ y, errors.ShapeError, r"matmul: .*\(2, 3\) and \(4, 5\)"),
    (lambda x, y: x @ 2.0, errors.ShapeError, "use multiply for scalars"),
    (lambda x, y: fnp.dot(x, y), errors.ShapeError, "dot: .*do not fit"),
    (lambda x, y: fnp.tensordot(x, y, 1), errors.ShapeError, "tensordot: .*one size"),
    (lambda x, y: fnp.einsum("ij,jk", x, y), errors.ShapeError, "sizes 3 and 4"),
    (
        lambda x, y: fnp.einsum("ij,ij,jk->ik", x, x, y),
        errors.ShapeError, r"^einsum: .*\(2, 3\) and \(4, 5\) do not fit: sizes 3 and",
    ),
    (
        lambda x, y: fnp.einsum_path("ij,ij,jk->ik", x, x, y),
        errors.ShapeError, "^einsum_path: .*sizes 3 and 4 of the axis 'j'",
    ),
    (
        lambda x, y: fnp.einsum("ij,jk,kl", x, x.T, x, optimize="no"),
        errors.ValueRangeError, "^einsum: optimize must be",
    ),
    (
        lambda x, y: fnp.einsum("ij,jk,kl", x, x.T, x, optimize=[(0, 7), (0, 1)]),
        errors.ValueRangeError, "^einsum: optimize must be",
    ),
    (
        lambda x, y: fnp.einsum("ij,jk,kl", x, x.T, x, optimize=[(0, 1)]),
        errors.ValueRangeError, "^einsum: optimize must be",
    ),
    (
        lambda x, y: fnp.einsum("ij,jk,kl", x, x.T, x, optimize=[7]),
        errors.ValueRangeError, "^einsum: optimize must be",
    ),
    (
        lambda x, y: fnp.linalg.multi_dot([x, x.T, y]),
        errors.ShapeError, r"^multi_dot: .*\(3, 2\) and \(4, 5\) do not fit",
    ),
    (
        lambda x, y: fnp.linalg.multi_dot([x[0], y, y[0]]),
        errors.ShapeError, r"^multi_dot: .*\(3,\) and \(4, 5\) do not fit",
    ),
    (lambda x, y: fnp.einsum("ijk->", x), errors.ShapeError, "labels 'ijk'"),
    (lambda x, y: fnp.einsum("ij->z", x), errors.ValueRangeError, "in no operand"),
    (lambda x, y: fnp.einsum("i.j", x), errors.ValueRangeError, "must consist of"),
    (
        lambda x, y: lax.dot_general(x, y, (((1,), (0,)), ((), ()))),
        errors.ShapeError, r"contracting axes \(1,\)",
    ),
    # convolution
    (
        lambda x, y: conv(IMAGE, FILTERS[:, :2], (1, 1), "SAME"),
        errors.ShapeError, "the input has 3 features; the kernel takes 2",
    ),
    (
        lambda x, y: conv(IMAGE[0], FILTERS, (1, 1), "SAME"),
        errors.ShapeError, "as many axes",
    ),
    (
        lambda x, y: conv(IMAGE, FILTERS, (1, 1), "NO"),
        errors.ValueRangeError, "must be 'SAME'",
    ),
    (
        lambda x, y: conv(IMAGE, FILTERS, (1,), "SAME"),
        errors.ShapeError, "window_strides must hold 2",
    ),
    # indexing, gather, scatter
    (lambda x, y: x[5], errors.IndexBoundsError, "index 5 .*axis 0 of size 2"),
    (lambda x, y: x[0, 0, 0], errors.IndexBoundsError, "2 axes, but 3 were indexed"),
    (lambda x, y: x[1.5], errors.DtypeError, r"\.astype\(int\)"),
    (lambda x, y: x["a"], errors.DtypeError, "must be an integer or bool, got 'a'"),
    (lambda x, y: x[np.zeros(2, int), np.zeros(3, int)], errors.ShapeError, "index: "),
    (lambda x, y: x[np.ones(5, bool)], errors.IndexBoundsError, r"mask of shape \(5,"),
    (lambda x, y: fnp.take(x, V, axis=4), errors.AxisError, "take: axis 4"),
    (lambda x, y: x.at[0].set(fnp.ones(7)), errors.ShapeError, r"at\[\].set: .*place"),
    (lambda x, y: x.at[0].set(0, mode="no"), errors.ValueRangeError, "mode must be"),
    (
        lambda x, y: fnp.take_along_axis(x, V, axis=0),
        errors.ShapeError, "as many axes as the array",
    ),
    (
        lambda x, y: lax.dynamic_slice(x, (0,), (1, 1)),
        errors.ShapeError, "one start per axis",
    ),
    (
        lambda x, y: lax.dynamic_update_slice(x, y, (0, 0)),
        errors.ShapeError, "must not exceed the shape",
    ),
    # dtypes and kinds
    (lambda x, y: x & 1, errors.DtypeError, "not defined for float32.*astype"),
    (lambda x, y: ~x, errors.DtypeError, "not defined for float32.*astype"),
    (lambda x, y: lax.sin(V), errors.DtypeError, "sin is not defined for int32"),
    (lambda x, y: fnp.median(x * 1j), errors.DtypeError, "numbers, got complex64"),
    (lambda x, y: fnp.unwrap(x, "x"), errors.ArgumentError, "an array or a number is"),
    (lambda x, y: fnp.tril(x, None), errors.ArgumentError, "an array or a number is"),
    (lambda x, y: fnp.triu(x, None), errors.ArgumentError, "an array or a number is"),
    (
        lambda x, y: fnp.tril_indices(2, None),
        errors.ArgumentError, "tril_indices: k must be an integer",
    ),
    (lambda x, y: lax.add(x, x.astype(int)), errors.DtypeError, "one dtype, got float"),
    (lambda x, y: fnp.sin("abc"), errors.ArgumentError, "got str: 'abc'; pass an"),
    (lambda x, y: fnp.sum([1.0]), errors.ArgumentError, "ftrace.numpy.asarray"),
    (lambda x, y: fnp.zeros(3, "nope"), errors.ArgumentError, "'nope' is not a dtype"),
    (lambda x, y: fnp.array([[1], [2, 3]]), errors.ShapeError, "not rectangular"),
    (lambda x, y: x + 2**80, errors.DtypeOverflowError, "write it as a float"),
    (lambda x, y: x.astype("int8") + 2**31, errors.DtypeOverflowError, "not fit int8"),
    (lambda x, y: ft.nn.one_hot(V, -1), errors.ValueRangeError, "not be negative"),
]  # fmt: skip

HERE = Path(__file__).name


def check(error: BaseException, text: str = "") -> None:
    """The message ends with this file, and the line that stands there."""
    assert isinstance(error, errors.FtraceError)
    last = str(error).splitlines()[-2:]
    assert HERE in last[0], str(error)
    assert text in last[1], str(error)
    assert len(error.message) > 10


@pytest.mark.parametrize("wrap", ["eager", "jit", "grad", "vmap"])
@pytest.mark.parametrize(("f", "error", "message"), BAD_SHAPES)
def test_bad_input_is_refused_alike_under_every_transform(
    f: F, error: type[Exception], message: str, wrap: str
) -> None:
    line = f.__code__.co_firstlineno
    call: F = {
        "eager": lambda: f(X, Y),
        "jit": lambda: ft.jit(f)(X, Y),
        "grad": lambda: ft.grad(lambda x: fnp.sum(f(x, Y) * 1.0))(X),
        "vmap": lambda: ft.vmap(f)(X[None], Y[None]),
    }[wrap]
    with refuses(error, message) as caught:
        call()
    check(caught.value)
    assert abs(caught.value.origin.line - line) <= 2  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: ft.grad(lambda a: a * 1.0)(3), errors.DerivativeError,
         r"float dtype, got i32~\[\]; convert with .astype"),
        (lambda: ft.grad(lambda a: fnp.sum(a * 1.0))(V > 1), errors.DerivativeError,
         "got bool"),
        (lambda: ft.grad(fnp.argmax)(X), errors.DerivativeError, "real float scalar"),
        (lambda: ft.grad(lambda a: a)(X), errors.ShapeError, "sum it, or use jacrev"),
        (lambda: ft.grad(lambda a: fnp.sum(a * 1j))(X), errors.DerivativeError,
         "got c64"),
        (lambda: ft.jacfwd(lambda a: a * 1.0)(V), errors.DerivativeError, r"i32\[3\]"),
        (lambda: ft.grad(lambda a: a, argnums=3)(1.0), errors.ArgumentError,
         "at least 4 positional"),
        (lambda: ft.jvp(lambda a: a["x"], ({"x": 1.0},), ({"y": 1.0},)),
         errors.TreeError, "differ in structure"),
        (lambda: ft.jvp(lambda a: a, (X,), (Y,)), errors.ShapeError,
         r"tangent: f32\[.*\] is required, got f32"),
        (lambda: ft.jvp(lambda a: a, (X,), (X.astype(int),)), errors.DtypeError,
         "convert it with .astype\\('float32'\\)"),
        (lambda: ft.vjp(lambda a: {"u": a}, 1.0)[1]({"v": 1.0}), errors.TreeError,
         "must be .*'u'.*got .*'v'"),
        (lambda: ft.vjp(lambda a: a, X)[1](Y), errors.ShapeError, "required, got f32"),
        (lambda: ft.linear_transpose(lambda a: a * a, X)(X), errors.DerivativeError,
         "not linear in its argument: it uses mul"),
        (lambda: ft.tree.map(lambda a, b: a, {"a": 1}, {"b": 2}), errors.TreeError,
         "differ in structure"),
        (lambda: ft.vmap(fnp.add)(fnp.ones(3), fnp.ones(4)), errors.BatchSizeError,
         r"inconsistent sizes .*: 3 of f32\[3\], 4 of f32\[4\]"),
        (lambda: ft.vmap(fnp.sin, in_axes=2)(V), errors.AxisError, "use None in"),
        (lambda: ft.vmap(fnp.sin)("s"), errors.ArgumentError, "got str"),
        (lambda: ft.jit(lambda a, b: a, static_argnums=1)(1.0, [1]),
         errors.StaticArgumentError, "hashable, got list; pass a tuple"),
        (lambda: ft.jit(lambda a: a)("s"), errors.ArgumentError, "got str"),
        (lambda: ft.jit(3), errors.ArgumentError, "jit takes a function, got int"),
        (lambda: ft.grad(3), errors.ArgumentError, "grad takes a function, got int"),
        (lambda: ft.tree.map(3, [1]), errors.ArgumentError, "map takes a function"),
        (lambda: ft.optim.apply_updates({"a": X}, {"b": X}), errors.TreeError,
         r"^apply_updates: .*: \{'a': \*\} and \{'b': \*\}$"),
        (lambda: V == [1, 2, 3], errors.ArgumentError, "equal: .* got list.*asarray"),
        (lambda: V != (1, 2, 3), errors.ArgumentError, "not_equal: .* got tuple"),
        (lambda: ft.jit(lambda a: a == {"b": 1})(V), errors.ArgumentError, "got dict"),
        (lambda: V + [1, 2, 3], errors.ArgumentError, "add: .* got list"),
        (lambda: fnp.array(nested(500)), errors.NestingError, "deeper than 64"),
        # Of the array itself, or of the tree where devices have been asked before.
        (lambda: fnp.array(nested(2000)), errors.NestingError, "nested deeper than"),
        (lambda: fnp.sum(nested(500)), errors.ArgumentError, "got list"),
        (lambda: fnp.take(V, 2**63), errors.IndexBoundsError, "807 or more is out"),
        (lambda: fnp.transpose(X, 0), errors.AxisError, "not a permutation"),
        (lambda: ft.lax.transpose(X, 0), errors.AxisError, "not a permutation"),
        (lambda: fnp.split(V, 2.0), errors.ArgumentError, "sections must be an int"),
        (lambda: fnp.diag(V, 1.5), errors.ArgumentError, "k must be an integer"),
        (lambda: fnp.array([1], ndmin=1.5), errors.ArgumentError, "ndmin must be an"),
        (lambda: fnp.cov(X, ddof="a"), errors.ArgumentError, "ddof must be an integer"),
        (lambda: fnp.select(3, [V]), errors.ArgumentError, "a list of conditions"),
        (lambda: fnp.piecewise(V, [V > 0], 3), errors.ArgumentError, "of functions"),
        (lambda: fnp.linalg.multi_dot(3), errors.ArgumentError, "sequence of arrays"),
        (lambda: fnp.frombuffer(b"abc", "f4"), errors.ArgumentError, "frombuffer: buf"),
        (lambda: fnp.vectorize(3), errors.ArgumentError, "vectorize takes a function"),
        (lambda: fnp.fromfunction(3, (2,)), errors.ArgumentError, "takes a function"),
        (lambda: ft.lax.reduce(V, 0, 3, (0,)), errors.ArgumentError, "a function"),
        (lambda: ft.random.choice(ft.random.key(0), 1j), errors.DtypeError, "a count"),
        (lambda: ft.load(3), errors.ArgumentError, "load: a path is required, got 3"),
        (lambda: ft.devices("nope"), errors.DeviceError, "devices are cpu"),
        (lambda: ft.config(nope=1).__enter__(), errors.ArgumentError, "settings are"),
        (lambda: ft.random.normal(3, (2,)), errors.ArgumentError, "random.key"),
        (lambda: len(fnp.array(1.0)), errors.ArgumentError, "without axes"),
        (lambda: bool(X), errors.ArgumentError, r"\.any\(\), \.all\(\)"),
        (lambda: X.__setitem__(0, 1), errors.ImmutableError, r"x\.at\[i\]\.set\(y\)"),
        (lambda: fnp.sin(fnp.zeros((1 << 50,))), errors.OutOfMemoryError, "bytes"),
    ],
)  # fmt: skip
def test_a_transform_says_what_it_requires(
    call: F, error: type[Exception], message: str
) -> None:
    with refuses(error, message) as caught:
        call()
    check(caught.value)


def test_values_that_tracing_does_not_have_are_named_with_their_line() -> None:
    def branch(x: Any) -> Any:
        if fnp.sum(x) > 0:  # branch here
            return x
        return -x

    for transform, why, other in (
        (ft.jit, "not known while", "static_argnums"),
        (ft.vmap, "is batched", "give it in_axes None"),
    ):
        with pytest.raises(errors.TracerBoolConversionError, match=why) as caught:
            transform(branch)(X)
        check(caught.value, "# branch here")
        assert "where" in caught.value.message
        assert other in caught.value.message
        assert "lax.cond" not in caught.value.message  # there is none yet


def test_a_value_is_said_to_be_made_where_this_function_made_it() -> None:
    """Equal operations share a node; each tracer knows its own line."""
    kept = ft.make_graph(lambda x: x * 3 + 1)(X)
    with pytest.raises(errors.ConcretizationTypeError) as caught:
        ft.jit(lambda x: float((x * 3 + 1)[0, 0]))(X)  # this one
    made = caught.value.message.split("computed at")[1]
    assert "# this one" in made
    assert "make_graph" not in made
    del kept


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda a: np.linalg.norm(a), r"linalg\.norm .* call ftrace\.numpy\.linalg"),
        (lambda a: np.linalg.svd(a), r"numpy\.linalg\.svd was called"),
        (lambda a: np.add.reduce(a), r"numpy\.add\.reduce"),
        (lambda a: np.sin(a, out=np.ones((2, 3))), r"numpy\.sin"),
        (lambda a: np.asarray(a), "Call the function of ftrace.numpy"),
    ],
)  # fmt: skip
def test_functions_of_numpy_on_tracers_are_named_in_full(call: F, message: str) -> None:
    with pytest.raises(errors.TracerArrayConversionError, match=message) as caught:
        ft.jit(call)(X)
    check(caught.value)


def test_a_leaked_tracer_names_both_lines() -> None:
    kept: list[Any] = []
    ft.jit(lambda x: [kept.append(fnp.sin(x)), x][1])(1.0)  # leaked here
    with pytest.raises(errors.UnexpectedTracerError) as caught:
        kept[0] + 1  # used here
    check(caught.value, "# used here")
    assert "# leaked here" in caught.value.message
    assert "return it" in caught.value.message


def test_frames_of_libraries_are_not_the_line_of_the_user() -> None:
    @dataclass
    class Made:
        x: Any

        def __post_init__(self) -> None:
            fnp.sum(self.x, axis=7)

    def in_thread(found: list[BaseException]) -> None:
        try:
            functools.reduce(fnp.matmul, [X, Y])  # in a thread
        except errors.FtraceError as error:
            found.append(error)

    with pytest.raises(errors.ShapeError) as caught:
        functools.partial(functools.reduce, fnp.add, [X, Y])()  # partial
    check(caught.value, "# partial")
    with pytest.raises(errors.ArgumentError) as caught, contextlib.ExitStack() as stack:
        stack.enter_context(ft.config(nope=3))  # stack
    check(caught.value, "# stack")
    with pytest.raises(errors.AxisError) as caught:
        Made(X)
    check(caught.value, "axis=7")
    with pytest.raises(errors.ShapeError) as caught:
        ft.tree.map(fnp.add, [X], [Y])  # tree
    check(caught.value, "# tree")
    minimize = pytest.importorskip("scipy.optimize").minimize
    with pytest.raises(errors.AxisError) as caught:
        minimize(fnp.sum, V.numpy(), args=7)  # scipy
    check(caught.value, "# scipy")
    found: list[BaseException] = []
    thread = threading.Thread(target=in_thread, args=(found,))
    thread.start()
    thread.join()
    check(found[0], "# in a thread")


def test_generated_code_with_no_other_caller_is_the_users() -> None:
    """`python -c` runs as <string>, like the methods of a dataclass."""
    from ftrace.errors import user_origin

    scope: dict[str, Any] = {"user_origin": user_origin, "found": []}
    code = compile("found.append(user_origin())", "<string>", "exec")
    thread = threading.Thread(target=exec, args=(code, scope))
    thread.start()
    thread.join()
    assert scope["found"][0].file == "<string>"


def test_a_missing_package_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    from ftrace.backends.opencl.device import OpenCL

    real = builtins.__import__

    def without(name: str, *args: Any, **options: Any) -> Any:
        if name.split(".")[0] == "pyopencl":
            raise ImportError(name)
        return real(name, *args, **options)

    monkeypatch.setattr(builtins, "__import__", without)
    monkeypatch.delitem(sys.modules, "pyopencl", raising=False)
    with pytest.raises(errors.MissingExtraError, match=r"ftrace\[opencl\]") as caught:
        OpenCL()
    assert "pyopencl" in caught.value.message
    assert isinstance(caught.value, ImportError)


@pytest.mark.parametrize("state", ["no platform", "no device", "loader fails"])
def test_a_missing_driver_says_how_to_get_one(
    state: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    cl = pytest.importorskip("pyopencl")
    from ftrace.backends.opencl.device import OpenCL

    class Bare:
        def get_devices(self) -> list[Any]:
            return []

    def platforms() -> list[Any]:
        if state == "loader fails":
            raise cl.LogicError("clGetPlatformIDs failed: PLATFORM_NOT_FOUND_KHR")
        return [] if state == "no platform" else [Bare()]

    monkeypatch.setattr(cl, "get_platforms", platforms)
    with pytest.raises(errors.DeviceError, match=r"no OpenCL driver.*pip install"):
        OpenCL()


def test_unreadable_files_say_what_was_expected(tmp_path: Path) -> None:
    damaged = tmp_path / "damaged.npz"
    damaged.write_bytes(b"PK\x03\x04 and no archive")
    text = tmp_path / "text.safetensors"
    text.write_bytes(b"hello")
    cases = {
        str(tmp_path / "missing.npz"): "there is no such file",
        str(damaged): "damaged.npz",
        str(text): "text.safetensors",
        str(tmp_path / "data.txt"): "must end in",
    }
    for path, message in cases.items():
        with pytest.raises(errors.FtraceError, match=message) as caught:
            ft.load(path)
        assert isinstance(caught.value, ValueError)
        check(caught.value, "ft.load(path)")


def test_exceptions_are_builtin_ones_too() -> None:
    kinds = (TypeError, ValueError, IndexError, RuntimeError, MemoryError,
             ArithmeticError, ImportError, AssertionError, NameError,
             AttributeError)  # fmt: skip
    for name, found in vars(errors).items():
        if isinstance(found, type) and issubclass(found, errors.FtraceError):
            if found is not errors.FtraceError:
                assert issubclass(found, kinds), name
            # Else `hasattr` would hide it; of a setting it asks for just that.
            known = errors.UnknownSettingError, errors.NoCustomRuleError
            assert issubclass(found, AttributeError) is (found in known)
            assert found.__doc__


def test_all_works_after_every_error() -> None:
    for f, error, _ in BAD_SHAPES:
        with pytest.raises(error):
            ft.jit(ft.vmap(f))(X[None], Y[None])
    assert float(ft.jit(ft.grad(lambda a: fnp.sum(a * a)))(X)[0, 0]) == 2.0
    assert get_device().name == "cpu"
