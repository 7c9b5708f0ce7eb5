"""Records what JAX draws, for `tests/random/test_random.py`.

    python tests/data/record_random.py

Needs jax; wrote `random.npz` with jax 0.10.2 on the CPU. `draws` is also what the
test calls, with `ftrace.random` in the place of `jax.random`.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

PATH = Path(__file__).with_name("random.npz")
Draw = Callable[[], Any]


def draws(random: Any) -> dict[str, Draw]:
    """Calls of a `random` module by name.

    Names begin with "exact" where every bit must agree, with "close" where rounding
    may differ; "x64" stands in the names of those that need JAX's 64-bit mode.
    """
    found: dict[str, Draw] = {}
    key = random.PRNGKey(42)

    def add(name: str, function: str, *args: Any, **options: Any) -> None:
        found[name] = lambda: getattr(random, function)(key, *args, **options)

    for seed in (0, 7, 123456789, 2**31 - 1, -1, -(2**31)):
        found[f"exact/PRNGKey/{seed}"] = lambda seed=seed: random.PRNGKey(seed)
    for seed in (2**40 + 3, -(2**35)):
        found[f"exact/PRNGKey/x64/{seed}"] = lambda seed=seed: random.PRNGKey(seed)
    found["exact/key"] = lambda: random.key_data(random.key(11))
    for number in (1, 2, 5, (2, 3), (0,), (2, 0, 1)):
        add(f"exact/split/{number}", "split", number)
    add("exact/split/default", "split")
    for data in (0, 1, 2**31, 2**32 - 1):
        add(f"exact/fold_in/{data}", "fold_in", data)
    add("exact/fold_in/array", "fold_in", np.int32(-5))

    for width in (8, 16, 32, 64):
        x64 = "x64/" if width == 64 else ""
        for shape in ((), (7,), (2, 3, 4), (0,)):
            add(f"exact/bits/{x64}{width}/{shape}", "bits", shape, f"uint{width}")
    add("exact/bits/default", "bits", (5,))

    floats = ("float16", "bfloat16", "float32", "float64")
    for name in floats:
        x64 = "x64/" if name == "float64" else ""
        dtype = ml_dtypes.bfloat16 if name == "bfloat16" else name
        add(f"exact/uniform/{x64}{name}", "uniform", (3, 9), dtype)
        add(f"exact/uniform/{x64}{name}/signed", "uniform", (21,), dtype, -1, 1)
        add(f"exact/uniform/{x64}{name}/wide", "uniform", (21,), dtype, 0.0, 5.0)
        add(f"close/normal/{x64}{name}", "normal", (40,), dtype)
        add(f"close/gumbel/{x64}{name}", "gumbel", (21,), dtype)
        add(f"close/exponential/{x64}{name}", "exponential", (21,), dtype)
        add(f"close/laplace/{x64}{name}", "laplace", (21,), dtype)
        add(
            f"close/truncated_normal/{x64}{name}",
            "truncated_normal",
            -2,
            2.0,
            (21,),
            dtype,
        )
    for name, low, high in (("rounded", 0.1, 0.7), ("shifted", -3.0, 10.0)):
        add(f"exact/uniform/{name}", "uniform", (200,), minval=low, maxval=high)
        add(f"close/uniform/x64/{name}", "uniform", (40,), "float64", low, high)
        add(f"exact/uniform/float16/{name}", "uniform", (40,), "float16", low, high)
    bound = np.linspace(0.3, 3.0, 4, dtype=np.float32)
    add("exact/uniform/arrays", "uniform", (5, 4), minval=-bound, maxval=bound**2)

    for width in (8, 16, 32, 64):
        for kind in ("int", "uint"):
            name = f"{kind}{width}"
            x64 = "x64/" if width == 64 else ""
            info = np.iinfo(name)
            low, high = int(info.min), int(info.max)
            add(f"exact/randint/{x64}{name}", "randint", (24,), 3, 100, name)
            add(f"exact/randint/{x64}{name}/one", "randint", (5,), 9, 9, name)
            add(f"exact/randint/{x64}{name}/empty", "randint", (5,), 9, 4, name)
            if name not in ("uint32", "uint64"):  # JAX takes such bounds as int32/int64
                add(f"exact/randint/{x64}{name}/all", "randint", (24,), low, high, name)
            if width < 32:
                add(f"exact/randint/{name}/full", "randint", (24,), low, high + 1, name)
                add(f"exact/randint/{name}/beyond", "randint", (24,), -999, 999, name)
    add("exact/randint/default", "randint", (2, 3), -1000000, 1000000)
    starts = np.array([0, -5, 100], np.int32)
    add("exact/randint/arrays", "randint", (4, 3), starts, starts + np.int32(7))
    add("exact/randint/x64/wide", "randint", (24,), -(2**62), 2**62, "int64")
    add("exact/randint/x64/narrowed", "randint", (24,), 0, 2**40, "int32")

    chances = np.array([0.0, 0.1, 0.5, 0.9, 1.0], np.float32)
    add("exact/bernoulli", "bernoulli", 0.3, (40,))
    add("exact/bernoulli/default", "bernoulli")
    add("exact/bernoulli/arrays", "bernoulli", chances)
    add("exact/bernoulli/broadcast", "bernoulli", chances, (4, 5))
    add("exact/bernoulli/high", "bernoulli", 0.3, (40,), mode="high")
    add("exact/rademacher", "rademacher", (12,))
    add("exact/rademacher/int8", "rademacher", (12,), "int8")
    add("exact/rademacher/float32", "rademacher", (12,), "float32")

    logits = np.log(np.linspace(1, 4, 12, dtype=np.float32)).reshape(3, 4)
    add("exact/categorical", "categorical", logits)
    add("exact/categorical/axis", "categorical", logits, 0)
    add("exact/categorical/shape", "categorical", logits, -1, (5, 3))
    add("exact/categorical/vector", "categorical", logits[0], shape=(17,))
    add("exact/categorical/high", "categorical", logits, shape=(2, 3), mode="high")

    rows = np.arange(12, dtype=np.float32).reshape(4, 3)
    chances = np.array([0.1, 0.0, 0.5, 0.4], np.float32)
    add("exact/choice", "choice", 10, (3, 4))
    add("exact/choice/rows", "choice", rows, (2, 2))
    add("exact/choice/axis", "choice", rows, (5,), axis=1)
    add("exact/choice/weighted", "choice", rows, (30,), p=chances)
    add("exact/choice/one", "choice", rows[:, 0])

    add("close/normal/complex64", "normal", (9,), "complex64")
    add("close/normal/default", "normal", (2, 3))
    add("close/normal/large", "normal", (300,))
    low = np.array([-1.0, 0.5, 3.0], np.float32)
    add("close/truncated_normal/arrays", "truncated_normal", low, low + np.float32(2))
    add("close/gumbel/high", "gumbel", (21,), mode="high")
    add("close/logistic", "logistic", (21,))
    add("close/cauchy", "cauchy", (21,))
    add("close/lognormal", "lognormal", 0.5, (9,))
    add("close/maxwell", "maxwell", (9,))
    add("close/double_sided_maxwell", "double_sided_maxwell", 1.0, 2.0, (9,))
    scale = np.array([0.5, 1.0, 2.0], np.float32)
    add("close/pareto", "pareto", scale, (2, 3))
    add("close/rayleigh", "rayleigh", scale)
    add("close/wald", "wald", scale, (4, 3))
    add("close/weibull_min", "weibull_min", 2.0, 1.5, (9,))
    add("close/weibull_min/arrays", "weibull_min", scale, scale)
    add("close/triangular", "triangular", -1.0, 0.5, 2.0, (9,))
    add("exact/geometric", "geometric", scale / 4, (5, 3))

    # Of rejection, which decides by rounded numbers: close ones decide the same.
    nan = float("nan")
    a = np.array([0.02, 0.3, 1.0, 2.5, 50.0, 0.0, -0.5, -2.0, nan], np.float32)
    for name in floats:
        x64 = "x64/" if name == "float64" else ""
        dtype = ml_dtypes.bfloat16 if name == "bfloat16" else name
        for one in ("gamma", "loggamma") if name[0] == "f" else ():
            if name != "float16":
                add(f"close/{one}/{x64}{name}", one, a.astype(dtype), dtype=dtype)
    add("close/gamma/shape", "gamma", a[:5], (4, 5))
    add("close/gamma/empty", "gamma", a[:0])
    add("close/gamma/int", "gamma", 3, (2,))
    add("close/beta", "beta", a, 0.5)
    add("close/beta/shape", "beta", a[:5, None], a[:3], (5, 3))
    add("close/chisquare", "chisquare", a * 2)
    add("close/t", "t", a[1:5], (3, 4))
    add("close/f", "f", a[2:], 3.0)
    add("close/dirichlet", "dirichlet", a[:5])
    add("close/dirichlet/small", "dirichlet", a[:3] * 1e-3, (2, 2))
    add("close/generalized_normal", "generalized_normal", 1.5, (5,))
    add("close/ball", "ball", 3, shape=(4,))
    add("close/ball/norm", "ball", 2, 0.5, (3,))

    lam = np.array([0, 0.3, 4, 9.99, 10, 60, 1e4, 1e7, nan], np.float32)
    add("exact/poisson", "poisson", lam)
    add("exact/poisson/shape", "poisson", lam[:, None], (9, 7))
    add("exact/poisson/int16", "poisson", lam[:7], dtype="int16")
    add("exact/poisson/float", "poisson", 3, (4,))
    n = np.array([0, 1, 7.9, 12, 100, 3000, nan, -1], np.float32)
    p = np.array([0, 0.2, 0.5, 0.99, 1, 1.5, -0.1, nan], np.float32)
    add("exact/binomial", "binomial", n, p[:, None])
    add("exact/binomial/shape", "binomial", 60, 0.3, (30,))
    weights = np.array([[0.2, 0.3, 0.5], [0.1, 0.0, 0.9]], np.float32)
    add("exact/multinomial", "multinomial", 100, weights)
    several = np.array([3.0, 70.0], np.float32)
    add("exact/multinomial/shape", "multinomial", several, weights, shape=(2, 2, 3))

    mean, cov = np.ones(2, np.float32), np.array([[2, 0.5], [0.5, 1]], np.float32)
    for method in ("cholesky", "svd"):
        name = f"close/multivariate_normal/{method}"
        add(name, "multivariate_normal", mean, cov, (3,), method=method)
    add("close/multivariate_normal", "multivariate_normal", mean, np.stack([cov] * 2))
    add("close/orthogonal", "orthogonal", 3)
    add("close/orthogonal/wide", "orthogonal", 2, (2,), m=4)
    add("close/orthogonal/tall", "orthogonal", 4, m=2)
    return found


def storable(values: Any) -> np.ndarray[Any, Any]:
    """As NumPy's own dtypes: 16-bit floats by their bits."""
    array = np.asarray(values)
    return array.view(np.uint16) if array.dtype == ml_dtypes.bfloat16 else array


def main() -> None:
    """Writes the file."""
    import jax

    recorded: dict[str, np.ndarray[Any, Any]] = {}
    for name, draw in draws(jax.random).items():
        with jax.enable_x64("/x64/" in name):
            recorded[name] = storable(draw())
    np.savez_compressed(PATH, **recorded)


if __name__ == "__main__":
    main()
