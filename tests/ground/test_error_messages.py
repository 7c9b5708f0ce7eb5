"""Messages name what the user wrote: function, argument, letter, line."""

# Its lambdas have no types.
# pyright: basic

from __future__ import annotations

import operator
import os
import re
import subprocess
import sys
import warnings
from collections.abc import Callable
from functools import partial
from inspect import signature
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ftrace as ft
import ftrace.numpy as fnp
from ftrace import errors, lax, nn
from ftrace.errors import called_function

#: Functions of a size, and the name that they have.
SIZED: list[tuple[str, Callable[[Any], Any]]] = [
    ("arange", lambda n: fnp.arange(n)),
    ("arange", lambda n: fnp.arange(0, n)),
    ("linspace", lambda n: fnp.linspace(0, 1, n)),
    ("full", lambda n: fnp.full((n, 2), 1)),
    ("reshape", lambda n: fnp.ones(6).reshape(n, 2)),
    ("repeat", lambda n: fnp.repeat(fnp.ones(6), n)),
    ("tile", lambda n: fnp.tile(fnp.ones(6), n)),
    ("one_hot", lambda n: nn.one_hot(fnp.arange(3), n)),
    ("eye", lambda n: fnp.eye(n)),
    ("iota", lambda n: lax.iota("int32", n)),
    ("index", lambda n: list(range(n))),
]


@pytest.mark.parametrize(("name", "function"), SIZED)
def test_a_traced_size_is_told_with_the_function_and_how_it_is_static(
    name: str, function: Callable[[Any], Any]
) -> None:
    with pytest.raises(errors.FtraceError, match=f"^{name}.*static_argnums") as found:
        ft.jit(function)(3)
    assert "instead of NumPy's" not in str(found.value)
    ft.jit(function, static_argnums=0)(3)


def test_arange_of_a_traced_float_is_told_likewise() -> None:
    with pytest.raises(errors.ConcretizationTypeError, match=r"^arange: item\(\)"):
        ft.jit(lambda n: fnp.arange(n))(3.0)


WRONG: list[tuple[Callable[[], Any], str]] = [
    (lambda: fnp.sin([1, 2]), "^sin: .*got list.*numpy.asarray"),
    (lambda: fnp.add(None, 1), "^add: .*got NoneType: None; pass an array"),
    (lambda: ft.jit(lambda x: fnp.add(x, "a"))(1.0), "^add: .*got str"),
    (lambda: nn.relu(None), "^relu: "),
    (lambda: nn.standardize(fnp.ones(3), mean="x"), "^standardize: .*got str: 'x'"),
    (lambda: nn.standardize(fnp.ones(3), epsilon="x"), "^standardize: .*got str: 'x'"),
    (
        lambda: lax.cond([True], int, int),
        r"^cond: .* a scalar, got \[True",
    ),
    (lambda: fnp.linalg.inv(None), "^inv: "),
    (lambda: fnp.apply_along_axis(lambda v: v, 0, None), "^apply_along_axis: "),
    (lambda: fnp.ones(3, 4), r"^4 is not a dtype; .*one tuple, as in ones\(\(3, 4\)\)"),
    (lambda: fnp.full(3, 4, 5), r"^full: 5 is not a dtype; .*one tuple"),
    (lambda: ft.jit(lambda x, op: x)(1.0, "sum"), "argument 'op' of <lambda>.*"),
    (lambda: ft.jit(lambda x, op: x)(1.0, "sum"), r"=1\) or jit\(…, static_argn"),
    (lambda: ft.jit(lambda x, op: x)(1.0, op="sum"), r"\(…, static_argnames='op'\)"),
    (lambda: ft.jit(lambda x, op: x)(1.0, {"a": "b"}), r"'op'\['a'\] of <lambda> must"),
    (lambda: ft.jit(lambda *x: x[0])(1.0, "sum"), "argument 1 of .*static_argnums=1"),
    (
        lambda: ft.jit(lambda a, b, c: a, static_argnums=0)(1, 2, "sum"),
        "argument 'c' .*static_argnums=2",
    ),
]


@pytest.mark.parametrize(("call", "message"), WRONG)
def test_a_wrong_argument_is_told_with_its_name(
    call: Callable[[], Any], message: str
) -> None:
    with pytest.raises(errors.ArgumentError, match=message):
        call()


def _public(space: Any) -> list[Any]:
    """Its functions, but for those that read or write files and text, and x[i]."""
    files = {
        "array_repr", "array_str", "fromfile", "fromiter", "getitem", "load", "save",
        "savez", "set_printoptions",
    }  # fmt: skip
    listed = getattr(space, "__all__", None) or dir(space)
    named = {n: getattr(space, n) for n in listed if n not in files and n[0] != "_"}
    return [
        pytest.param(f, id=f"{space.__name__}.{n}")
        for n, f in named.items()
        if callable(f) and not isinstance(f, type)
    ]


SPACES = [fnp, fnp.linalg, fnp.fft, nn, ft.scipy.special, ft.scipy.linalg]


@pytest.mark.parametrize("function", [f for s in SPACES for f in _public(s)])
def test_shapes_that_do_not_fit_are_told_with_the_function_that_was_called(
    function: Any,
) -> None:
    x, y = fnp.ones((3, 4)), fnp.ones((2, 5))
    for call in (function, ft.jit(lambda *xs: (function(*xs), x)[1])):
        try:
            call(x, y)
            continue
        except Exception as found:
            error = found
        name, told = function.__name__, str(error)
        if isinstance(error, errors.FtraceError):
            assert re.match(rf"(linalg\.)?{name}\b", told)
            assert Path(__file__).name in told
        else:  # as Python tells it
            assert isinstance(error, TypeError)
            assert re.match(rf"{name}\(\) .*argument", told)


def test_a_function_that_calls_others_is_told_by_its_own_name() -> None:
    x, y = fnp.ones((3, 4)), fnp.ones((2, 5))
    with pytest.raises(errors.ShapeError, match=r"^nan_to_num: shapes"):
        fnp.nan_to_num(x, nan=y)
    with pytest.raises(errors.ArgumentError, match=r"^mean: 'foo' is not a dtype"):
        fnp.mean(x, dtype="foo")
    with pytest.raises(errors.IndexBoundsError, match=r"^index 7 is out of bounds"):
        x[7]  # pyright: ignore[reportUnusedExpression]
    with pytest.raises(errors.ShapeError, match=r"^add: shapes"):
        fnp.apply_along_axis(lambda v: v + y, 0, x)


MASK = np.ones((2, 5))
FOREIGN: list[tuple[Callable[[Any], Any], str]] = [
    (lambda x: fnp.take(x, [1, [2]]), r"^take: an index must be rectangular, .*\[2\]"),
    (lambda x: x[[1, [2]]], "^an index must be rectangular"),
    (lambda x: fnp.delete(x, [1, [2]]), "^delete: obj must be rectangular"),
    (lambda x: fnp.repeat(x, [1, [2]]), "^repeat: repeats must be rectangular"),
    (lambda x: fnp.polyder(x[0, 0]), r"^polyder: p must be a vector, got shape \(\)"),
    (lambda x: fnp.polyint(x[0, 0]), r"^polyint: p must be a vector, got shape \(\)"),
    (lambda x: fnp.fft.fftn(x, 7), "^fftn: s must be a sequence"),
    (lambda x: fnp.fft.irfftn(x, axes=1.5), "^irfftn: axes must be a sequence"),
    (lambda x: fnp.fft.ifft2(x, x, MASK), "^ifft2: axis must be an integer"),
    (lambda x: ft.scipy.linalg.cho_solve(x, x), "^cho_solve: c_and_lower .* pair"),
    (lambda x: fnp.angle(x, MASK), "^angle: an argument does not fit: The truth value"),
    (lambda x: fnp.linalg.svd(x, MASK), "^svd: .*The truth value"),
    (lambda x: fnp.linalg.norm(x, MASK), "^norm: .*The truth value"),
    (lambda x: fnp.ravel(x, MASK), "^ravel: .*The truth value"),
    (lambda x: lax.round(x, MASK), "^round: .*The truth value"),
    (lambda x: fnp.linalg.lstsq(x, x, "bad"), "^lstsq: .* 'bad'"),
    (lambda x: fnp.einsum(x, [1, [2]]), "^einsum: .*unhashable"),
    (lambda x: lax.switch(0, 7), "^switch takes a sequence of functions, got 7"),
    (lambda x: lax.padtype_to_pads(x, x, x, 7), "^padtype_to_pads: padding, .* got 7"),
    (
        lambda x: lax.padtype_to_pads(x, x, x, MASK),
        "^padtype_to_pads: padding, if it is no list",
    ),
    (lambda x: lax.stack(1.0), "^stack: an argument does not fit"),
    (lambda x: fnp.can_cast(x, x, "bad"), "^can_cast: an argument does not fit"),
]


ALONG: list[tuple[Callable[[Any], Any], str]] = [
    (lambda x: lax.pshuffle(x, "i", "bad"), "^pshuffle: each of perm must be an int"),
    (lambda x: lax.pshuffle(x, "i", 7), "^pshuffle: perm must be a sequence"),
    (lambda x: lax.ppermute(x, "i", 7), "^ppermute: perm must be a sequence"),
    (lambda x: lax.ppermute(x, "i", [1]), "^ppermute: perm, each entry, must be a seq"),
    (lambda x: lax.ppermute(x, "i", [(0, 1, 2)]), "^ppermute: perm must be pairs"),
    (lambda x: lax.ppermute(x, "i", [("a", 2)]), "^ppermute: perm, each number, must"),
    (lambda x: lax.psum(x, "i", axis_index_groups=7), "^psum: axis_index_groups must"),
]


@pytest.mark.parametrize(("function", "said"), ALONG)
def test_wrong_instances_along_an_axis_are_told(
    function: Callable[[Any], Any], said: str
) -> None:
    with pytest.raises(errors.FtraceError, match=said) as caught:
        ft.vmap(function, axis_name="i")(fnp.ones(3))
    assert Path(__file__).name in str(caught.value)


@pytest.mark.parametrize("under", [lambda f: f, ft.jit])
@pytest.mark.parametrize(("function", "said"), FOREIGN)
def test_what_python_says_of_an_argument_comes_with_name_and_line(
    function: Callable[[Any], Any], said: str, under: Any
) -> None:
    with pytest.raises(errors.FtraceError, match=said) as caught:
        under(function)(fnp.ones((3, 4)))
    assert Path(__file__).name in str(caught.value)


class _Unreadable:
    def __array__(self, *_: Any, **__: Any) -> Any:
        raise ValueError("of the user's")


def test_what_code_of_the_users_raises_stays_as_it_is() -> None:
    for function in (fnp.asarray, fnp.array):
        with pytest.raises(ValueError, match=r"^of the user's$") as caught:
            function(_Unreadable())
        assert type(caught.value) is ValueError


#: Activations of one array and, some of them, a number.
ACTIVATIONS = [
    "celu", "elu", "gelu", "hard_sigmoid", "hard_silu", "hard_swish", "hard_tanh",
    "leaky_relu", "log1mexp", "log_sigmoid", "mish", "relu", "relu6", "selu", "sigmoid",
    "silu", "soft_sign", "softplus", "sparse_plus", "sparse_sigmoid", "squareplus",
    "swish", "tanh",
]  # fmt: skip


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_wrong_parameters_of_activations_are_told_by_their_name(name: str) -> None:
    function = getattr(nn, name)
    x, count = fnp.ones(3), len(signature(function).parameters)
    with pytest.raises(TypeError, match=rf"^{function.__name__}\(\) takes .* argument"):
        function(x, *[1.0] * count)
    with pytest.raises(TypeError, match=rf"^{function.__name__}\(\) got .*'no'"):
        function(x, no=1.0)
    (*_, last) = signature(function).parameters
    if count > 1:
        with pytest.raises(TypeError, match="multiple values for argument"):
            function(x, 1.0, **{last: 1.0})
        for wrong in (None, "x", [1.0]):
            for args, named in (((wrong,), {}), ((), {last: wrong})):
                with pytest.raises(errors.ArgumentError, match=f"^{name}: .* required"):
                    function(x, *args, **named)


#: An array of every kind of dtype, and what stands beside it.
OF_KINDS: list[Any] = [np.ones(2, dtype) for dtype in ("bool", "i4", "u1", "f4", "c8")]
BESIDE: list[Any] = [True, 1, 1.5, 1j]
OPERATORS: dict[str, Callable[..., Any]] = {
    "negative": operator.neg, "bitwise_not": operator.invert, "absolute": operator.abs,
    "add": operator.add, "subtract": operator.sub, "multiply": operator.mul,
    "true_divide": operator.truediv, "floor_divide": operator.floordiv,
    "remainder": operator.mod, "power": operator.pow, "less": operator.lt,
    "left_shift": operator.lshift, "right_shift": operator.rshift,
    "bitwise_and": operator.and_, "bitwise_or": operator.or_,
    "bitwise_xor": operator.xor,
}  # fmt: skip
UFUNCS = {
    name: getattr(fnp, name)
    for name, ufunc in vars(np).items()
    if isinstance(ufunc, np.ufunc) and not ufunc.signature and hasattr(fnp, name)
}


@pytest.mark.parametrize(
    ("name", "call"),
    [*OPERATORS.items(), *UFUNCS.items()],
    ids=[*(f"operator of {name}" for name in OPERATORS), *UFUNCS],
)
def test_a_dtype_is_refused_by_the_public_name(
    name: str, call: Callable[..., Any]
) -> None:
    unary, said = getattr(np, name).nin == 1, set[str]()
    for x in OF_KINDS:
        for more in [()] if unary else [(y,) for y in BESIDE]:
            for function in (call, ft.jit(lambda *xs: call(*xs))):
                try:
                    function(fnp.asarray(x), *more)
                except errors.FtraceError as error:
                    said.add(error.message)
    for message in said:
        named = getattr(fnp, message.split()[0])
        part = fnp.floor_divide if name == "divmod" else None
        assert named in (getattr(fnp, name), part), message


@pytest.mark.parametrize(
    ("call", "advice"),
    [
        (lambda x: -x, r"^negative .* bool; write ~x, or logical_not\(x\)"),
        (lambda x: x - x, r"^subtract .* bool; write x \^ y, or logical_xor\(x, y\)"),
        (lambda x: lax.sub(x, x), r"^sub .* bool; convert with .astype\(int\)"),
        (lambda x: nn.softplus(x) << 1, r"^left_shift .*32; convert with .astype\(int"),
        (lambda x: fnp.floor(x * 1j), r"^floor .*64; take its .real, or abs\(x\)"),
        (lambda x: fnp.ptp(x), r"^ptp .* bool; convert with .astype\(int\)"),
        (lambda x: lax.sin(x + 1), r"^sin .* int32; convert with .astype\(float\)"),
        (lambda x: x - fnp.ones(3), r"^subtract: shapes \(2,\) and \(3,\) do not"),
        (
            lambda x: len(x[0]),
            r"^len\(\) of an array without axes; write x.reshape\(-1",
        ),
        (
            lambda x: fnp.reshape(x, None),
            r"^reshape: shape, where it is no tuple, must .* got None",
        ),
    ],
)
def test_what_to_write_instead_is_told(call: Any, advice: str) -> None:
    for function in (call, ft.jit(lambda x: call(x))):
        with pytest.raises(errors.FtraceError, match=advice):
            function(fnp.array([True, False]))


def test_no_function_is_named_where_none_was_called() -> None:
    assert called_function() == ""
    with pytest.raises(errors.ArgumentError, match=r"^x\n"):
        fnp.apply_along_axis(_complain, 0, np.ones((2, 2)))


def _complain(_: Any) -> Any:
    assert called_function() == ""  # this line is the user's, and calls none
    raise errors.ArgumentError("x")


def test_einsum_names_the_letter_of_sizes_that_differ() -> None:
    with pytest.raises(errors.ShapeError, match="3 and 4 of the axis 'j' that"):
        fnp.einsum("ij,jk->ik", fnp.ones((2, 3)), fnp.ones((4, 2)))
    with pytest.raises(errors.ShapeError, match="2 and 4 of the axis that"):
        fnp.einsum("...i,...i->...", fnp.ones((2, 3)), fnp.ones((4, 3)))


def test_64_bits_are_advised_where_they_help_alone() -> None:
    for x64 in (None, False, True):
        with ft.config(enable_x64=x64), pytest.raises(OverflowError) as found:
            fnp.asarray(2**70)
        assert "jax_enable_x64" not in str(found.value)
    with ft.config(enable_x64=False), pytest.raises(OverflowError, match="jax_enable"):
        fnp.asarray(2**40)


@pytest.mark.parametrize("kind", ["max", "min"])
def test_complex_extrema_at_an_array_of_indices_are_refused_at_once_and_in_jit(
    kind: str,
) -> None:
    def update(x: Any) -> Any:
        return getattr(x.at[np.array([0, 0])], kind)(2)

    x = fnp.ones(3, np.complex64)
    for call in (update, ft.jit(update)):
        with pytest.raises(errors.DtypeError, match=f"no {kind}imum"):
            call(x)
    assert update(x.real).tolist() == ([2.0, 1, 1] if kind == "max" else [1.0, 1, 1])


def _run(program: Path, **environment: str) -> Any:
    return subprocess.run(
        [sys.executable, str(program)],
        env={**os.environ, **environment},
        capture_output=True, text=True, check=False, cwd=program.parent,
    )  # fmt: skip


def test_a_folder_of_the_cache_may_begin_with_the_home(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text("import ftrace as ft\nft.jit(lambda x: x + 1)(1.0)\n")
    home = tmp_path / "home"
    home.mkdir()
    done = _run(program, FTRACE_CACHE_DIR="~/kept", HOME=str(home))
    assert done.stderr == ""
    assert sorted(p.name for p in tmp_path.iterdir()) == ["home", "program.py"]
    assert [p.name for p in home.iterdir()] == ["kept"]


def test_a_cache_that_cannot_be_written_is_told_at_the_line_of_the_user(
    tmp_path: Path,
) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        "import ftrace as ft\nf = ft.jit(lambda x: x + 1)\n\nprint(f(1.0))\n"
    )
    file = tmp_path / "file"
    file.write_text("no folder")
    done = _run(program, FTRACE_CACHE_DIR=str(file))
    assert done.stdout == "2.0\n"
    assert f"{program}:4: CacheWarning: compiled code cannot be kept" in done.stderr


def _put(x: Any) -> Any:
    return x.at[0].set(1.5)


def _draw() -> Any:
    with ft.legacy_prng_key("warn"):
        return ft.random.uniform(ft.random.PRNGKey(0))


WARNED: list[Callable[[], Any]] = [
    lambda: _put(fnp.arange(3)),
    lambda: ft.jit(_put)(fnp.arange(3)),
    lambda: ft.vmap(_put)(fnp.ones((2, 3), int)),
    _draw,
]


@pytest.mark.parametrize("wrong", WARNED)
def test_a_warning_is_of_the_users_line_and_comes_once(wrong: Any) -> None:
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("default")
        wrong()
        wrong()
    assert [warning.filename for warning in told] == [__file__]


def test_a_warning_of_nobodys_line_names_no_file() -> None:
    code = "from ftrace.errors import warn_user as w; import threading as t"
    code += "; x = t.Thread(target=w, args=('a',)); x.start(); x.join(); w('b')"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert done.stderr.splitlines()[0] == "ftrace:1: UserWarning: a"
    assert "<string>:1: UserWarning: b" in done.stderr


def _layer(w: Any, x: Any) -> Any:
    y = x * 2
    return fnp.tanh(y @ w)


@pytest.mark.parametrize("under", [ft.jit, partial(ft.grad, argnums=(0, 1))])
def test_traced_operands_are_told_with_the_lines_that_made_them(under: Any) -> None:
    with pytest.raises(errors.ShapeError) as caught:
        under(_layer)(fnp.ones((3, 4)), fnp.ones((5, 7)))
    lines = str(caught.value).splitlines()
    (made,) = [
        i for i, line in enumerate(lines) if "its operand f32[5,7] was made" in line
    ]
    assert lines[made + 1].strip() == "y = x * 2"
    assert any(
        "its operand f32[3,4] is an argument of the call" in line for line in lines
    )
    with pytest.raises(errors.ShapeError) as caught:
        _layer(fnp.ones((3, 4)), fnp.ones((5, 7)))
    assert "its operand" not in str(
        caught.value
    )  # nobody has noted where those came from


def _captures(held: Any) -> Any:
    return lambda x: fnp.sum(x[..., None] * x[..., None, :] @ held)


@pytest.mark.parametrize("kind", [fnp.ones, np.ones])
@pytest.mark.parametrize(
    "under", [ft.grad, ft.vmap, ft.jit, lambda f: ft.jit(ft.checkpoint(f))]
)
def test_what_is_captured_is_told_to_be_no_argument(under: Any, kind: Any) -> None:
    held = kind((5, 5), "float32")
    for function in (
        _captures(held),
        lambda x: ft.lax.fori_loop(0, 2, lambda _, c: c * _captures(held)(x), 1.0),
    ):
        with pytest.raises(errors.ShapeError) as caught:
            under(function)(fnp.ones((2, 4)))
        told = [x for x in str(caught.value).splitlines() if "its operand" in x]
        assert "its operand f32[5,5] is captured, or made of constants" in told[-1]
        assert len(told) == 2
        assert "was made" in told[0]


@pytest.mark.parametrize("under", [ft.grad, ft.value_and_grad, ft.jacfwd, ft.jacrev])
@pytest.mark.parametrize(
    ("function", "said"),
    [
        (lambda w, x, *, y: w @ x["a"], "is an argument, which is not differentiated"),
        (lambda w, x, *, y: w @ y, "is an argument, which is not differentiated"),
        (lambda w, x, *, y: w @ (y + 1), "constants or what is not differentiated"),
        (
            lambda w, x, *, y: ft.lax.fori_loop(0, 2, lambda i, c: c + w @ y, w[0, 0]),
            "is an argument, which is not differentiated",
        ),
        (
            lambda w, x, *, y: ft.grad(lambda v: fnp.sum(v @ y))(w),
            "is an argument, which is not differentiated",
        ),
    ],
)
def test_an_argument_that_is_not_differentiated_is_told_to_be_one(
    under: Any, function: Any, said: str
) -> None:
    x = fnp.ones((3, 4))
    with pytest.raises(errors.ShapeError, match="matmul: ") as caught:
        under(function)(np.ones((3, 4), "f4"), {"a": x}, y=np.ones((3, 4), "f4"))
    told = [x for x in str(caught.value).splitlines() if "its operand" in x]
    assert "is an argument of the call" in told[0]
    assert said in told[1]


def test_what_is_captured_beside_itself_is_told_to_be_captured() -> None:
    x = fnp.ones((3, 4))
    with pytest.raises(
        errors.ShapeError, match="is captured, or made of constants: no"
    ):
        ft.grad(lambda w: fnp.sum(w @ x))(x)


@pytest.mark.parametrize("spec", [".3f", ">12", "e"])
@pytest.mark.parametrize("under", [ft.jit, ft.vmap, lambda f: ft.jit(ft.grad(f))])
def test_a_format_of_an_unknown_value_is_told_to_print_it_later(
    under: Any, spec: str
) -> None:
    seen: list[str] = []

    def f(x: Any) -> Any:
        seen.extend((f"{x}", f"{x!s:>40}"))
        return format(fnp.sum(x), spec)

    told = r"^format\(\) needs .*ft.debug.print\(.loss {:.3f}., x\)"
    with pytest.raises(errors.ConcretizationTypeError, match=told):
        under(f)(fnp.ones(3))
    assert [x.strip() for x in seen] == [seen[0]] * 2


@pytest.mark.parametrize("kind", [float, np.float32, fnp.float32, fnp.float16])
def test_a_format_of_a_known_value_is_that_of_its_number(kind: Any) -> None:
    seen: list[str] = []

    def f(x: Any) -> Any:
        seen.append(f"{x:.2f}")
        return x * 1.0

    ft.grad(f)(kind(1.5))
    f(kind(1.5))
    assert seen == ["1.50", "1.50"]
    for under in (ft.grad, lambda f: f):  # as for the array itself
        with pytest.raises(errors.ArgumentError, match=r"'\.2f' is one of a number"):
            under(lambda x: fnp.sum(f(x)))(fnp.ones(3))


def test_a_slice_names_the_axis_that_it_leaves() -> None:
    told = r"axis 1 of f32\[2,3\] needs 0 <= start <= stop <= 3, got start 0 and stop 9"
    with pytest.raises(errors.ShapeError, match=told):
        ft.lax.slice_in_dim(fnp.ones((2, 3)), 0, 9, axis=1)


def test_branches_of_one_name_are_told_apart() -> None:
    told = r"<lambda> \(false_fun\) returns \(\*, \*\) and <lambda> \(true_fun\) \*"
    with pytest.raises(errors.TreeError, match=told):
        ft.jit(lambda p, x: ft.lax.cond(p, lambda y: y, lambda y: (y, y), x))(True, 1.0)
    told = r"<lambda> \(branch 0\) returns \* and <lambda> \(branch 2\) \(\*, \*\)"
    with pytest.raises(errors.TreeError, match=told):
        ft.jit(
            lambda i, x: ft.lax.switch(i, [lambda y: y, fnp.sin, lambda y: (y, y)], x)
        )(0, 1.0)


def test_the_values_of_a_tracer_are_told_to_be_unknown() -> None:
    with pytest.raises(errors.TracerArrayConversionError, match=r"^numpy\(\) needs"):
        ft.jit(lambda x: x.numpy())(1.0)
    assert ft.grad(lambda x: x * ft.lax.stop_gradient(x).numpy())(3.0) == 3
