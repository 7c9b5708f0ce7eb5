"""Public functions as users meet them: by name, in `help`, in pickles."""

from __future__ import annotations

import inspect
import pickle
from functools import partial
from importlib import import_module
from typing import Any, get_origin

import numpy as np
import pytest

import ftrace as ft
import ftrace.numpy as fnp
from ftrace import errors, lax
from ftrace.test_util import check_jvp, check_vjp
from ftrace.trace.eager.function_objects import Eager

DISTRIBUTIONS = (
    "bernoulli", "beta", "betabinom", "binom", "cauchy", "chi2", "dirichlet", "expon",
    "gamma", "gennorm", "geom", "gumbel_l", "gumbel_r", "laplace", "logistic",
    "multinomial", "multivariate_normal", "nbinom", "norm", "pareto", "poisson", "t",
    "truncnorm", "uniform", "vonmises", "wrapcauchy",
)  # fmt: skip
MODULES = (
    "lax", "lax.linalg", "nn", "nn.initializers", "numpy", "numpy.fft",
    "numpy.linalg", "ops", "random", "scipy.fft", "scipy.linalg", "scipy.ndimage",
    "scipy.optimize", "scipy.signal", "scipy.special", "scipy.stats",
    *[f"scipy.stats.{name}" for name in DISTRIBUTIONS],
)  # fmt: skip


def public_functions(module: str) -> dict[str, Any]:
    space = vars(import_module(f"ftrace.{module}"))
    names = space.get("__all__") or [name for name in space if name[0] != "_"]
    found = {name: space[name] for name in names}
    return {
        name: x
        for name, x in found.items()
        if isinstance(x, Eager)
        or (inspect.isfunction(x) and x.__module__.startswith("ftrace."))
    }


@pytest.mark.parametrize("module", MODULES)
def test_a_public_function_says_what_it_does_and_takes(module: str) -> None:
    functions = public_functions(module)
    assert functions
    for name, function in functions.items():
        assert inspect.getdoc(function), name
        signature = inspect.signature(function)
        parameters = signature.parameters
        assert list(parameters) != ["args", "kwargs"], name
        assert all(p.annotation is not p.empty for p in parameters.values()), name
        taken = " ".join([str(p.annotation) for p in parameters.values()])
        returned = str(signature.return_annotation)
        assert len(returned) > 1 or returned in taken, name  # T is what was given
        assert "Ellipsis" not in str(signature), name
        assert " object at 0x" not in str(signature), name


@pytest.mark.parametrize("module", MODULES)
def test_a_public_function_is_found_by_its_own_name(module: str) -> None:
    for function in public_functions(module).values():
        name = function.__name__
        assert getattr(import_module(function.__module__), name) is function
        assert function.__qualname__ == inspect.unwrap(function).__name__ == name
        assert pickle.loads(pickle.dumps(function)) is function


@pytest.mark.parametrize("module", MODULES)
def test_a_keyword_that_is_unknown_is_told_with_the_functions_name(module: str) -> None:
    functions = public_functions(module)
    for function in functions.values():
        parameters = inspect.signature(function).parameters.values()
        if any(p.kind is p.VAR_KEYWORD for p in parameters):
            continue
        with pytest.raises(TypeError) as caught:
            function(fnp.ones((3, 3)), no_such=1)
        told = str(caught.value).partition("() ")[0]
        assert told.rpartition(".")[2] in {x.__name__ for x in functions.values()}


def test_a_public_class_is_found_by_its_public_name() -> None:
    for name, x in vars(lax).items():
        own = isinstance(x, type) and get_origin(x) is None  # an alias is none
        if name[0] != "_" and own and x.__module__ != "ftrace.errors":
            assert (x.__module__, x.__qualname__) == ("ftrace.lax", name)
            assert pickle.loads(pickle.dumps(x)) is x


def test_arguments_are_taken_by_position_and_by_name_as_in_jax() -> None:
    x, hits = fnp.array([2.0, np.nan, 4.0]), fnp.array([True, True, False])
    assert float(fnp.nanmean(x, 0, None, None, False, hits)) == 2
    assert float(fnp.nansum(x, 0, None, None, False, None, hits)) == 2
    assert float(fnp.nanstd(x, 0, None, None, 0, False, hits)) == 0
    assert int(fnp.gcd(x1=4, x2=6) + fnp.lcm(x2=4, x1=6)) == 14
    assert float(fnp.fmax(x1=1.0, x2=np.nan) + fnp.trunc(x=2.5) + fnp.i0(x=0)) == 4
    assert fnp.isreal(x=1.0)
    assert not fnp.iscomplex(x=1.0)
    assert x.astype(fnp.float16, True).dtype == fnp.float16
    wrong = [
        lambda: fnp.mean(x, 0, None, None, False, hits),
        lambda: fnp.var(x, 0, None, None, 0, False, hits),
        lambda: fnp.nansum(x, promote_integers=False),
        lambda: fnp.nanvar(x, correction=1),
        lambda: lax.floor(x, accuracy=None),
    ]
    for call in wrong:
        with pytest.raises(TypeError, match="argument"):
            call()


def test_arguments_of_jax_that_decide_nothing_have_to_be_none() -> None:
    x = fnp.ones(4)
    for name in ("out", "where"):
        fnp.add(x, x, **{name: None})
        with pytest.raises(NotImplementedError, match=f"{name} of .* must be None"):
            fnp.add(x, x, **{name: x})
    for call in (partial(fnp.reshape, x, (2, 2)), x.ravel, partial(fnp.arange, 3)):
        call(out_sharding=None)
        with pytest.raises(
            errors.ArgumentError, match="device_put: a device, its name"
        ):
            call(out_sharding=3)
    for function in (lambda x: fnp.add(x, x, out=None), partial(fnp.ravel, order="C")):
        assert ft.jit(function)(x).shape == (4,)
    assert str(inspect.signature(fnp.negative)).startswith("(x: 'ArrayLike', /, *")


def test_rules_of_users_are_held_against_differences() -> None:
    def f(x: Any) -> Any:
        return fnp.sin(x) * x

    check_jvp(f, partial(ft.jvp, f), (1.5,))
    check_vjp(f, partial(ft.vjp, f), (fnp.ones(3),), atol=0.1, err_msg="f")
    for wrong in (lambda p, t: (p[0], t[0]), lambda p, t: (f(*p), t[0])):
        with pytest.raises(AssertionError, match="mine"):
            check_jvp(f, wrong, (0.3,), err_msg="mine")
    with pytest.raises(AssertionError, match="the vjp of mine"):
        check_vjp(f, lambda x: (f(x), lambda c: (c,)), (0.3,), err_msg="mine")


def test_objects_that_users_meet_show_what_they_are() -> None:
    x = fnp.ones(3)
    f = ft.jit(fnp.sin)
    mesh = ft.make_mesh((1,), ("a",))
    met = [
        f, f.trace(x), f.lower(x), f.lower(x).compile(), x.at, x.at[0], ft.config, mesh,
        ft.P("a"), ft.NamedSharding(mesh, ft.P()), ft.random.key(0), f.cache_info(),
        ft.vjp(fnp.sin, x)[1], ft.linearize(fnp.sin, x)[1], fnp.r_, fnp.c_, fnp.mgrid,
        ft.Checkpoints("folder"), ft.devices()[0], ft.typeof(x), ft.new_ref(x),
        f.misses, ft.debug_nans, x.addressable_shards[0], f.lower(x).args_info,
    ]  # fmt: skip
    ft.jit(lambda y: met.append(y) or met.append(y.at[0]))(x)
    ft.jit(lambda y: met.append(y.shape[0]), dynamic={"y": {0: "n"}})(x)
    for shown in map(repr, met):
        assert " object at 0x" not in shown, shown
    assert repr(f.lower(x)) == "<Lowered of sin(f32[3])>"
