"""Public functions as users meet them: by name, in `help`, in pickles."""

from __future__ import annotations

import inspect
import pickle
from importlib import import_module
from typing import Any

import pytest

from ftrace import lax
from ftrace.trace.eager.dispatch import Eager

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


def test_a_public_class_is_found_by_its_public_name() -> None:
    for name, x in vars(lax).items():
        if name[0] != "_" and isinstance(x, type) and x.__module__ != "ftrace.errors":
            assert (x.__module__, x.__qualname__) == ("ftrace.lax", name)
            assert pickle.loads(pickle.dumps(x)) is x
