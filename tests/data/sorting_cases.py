"""Expressions about order, whose values JAX has been asked for: record_sorting.py.

Each is evaluated with `n` (numpy), `lax`, `random` and the arrays of `inputs()` as
names: by the recorder with JAX's modules, by the tests with ours.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

PATH = Path(__file__).with_name("sorting.npz")

KINDS = ("bool", "int8", "uint8", "int32", "uint32", "float16", "bfloat16", "float32")


def inputs() -> dict[str, np.ndarray[Any, Any]]:
    """The arrays by name, without a random generator: they stay as they are."""
    steps = np.arange(36)
    mixed = ((steps * 29 + 7) % 41 - 17).reshape(4, 9)
    special = np.array([1, np.nan, -np.inf, 0, -0.0, np.inf, 2, np.nan, -0.0, 0, 1, -2])
    found: dict[str, np.ndarray[Any, Any]] = {
        "x": (mixed / 8).astype(np.float32),
        "y": (((steps * 31 + 5) % 37 - 20).reshape(4, 9) / 9).astype(np.float32),
        "k": ((steps * 17 + 3) % 5).reshape(4, 9).astype(np.int32),
        "k2": ((steps * 7 + 1) % 3).reshape(4, 9).astype(np.int32),
        "s": special.astype(np.float32),
        "c": np.stack([special, np.roll(special, 5)], 1)
        .astype(np.float32)
        .view(np.complex64)[:, 0],
        "ties": np.array([1, 3, 3, 2, 3, 5, 5, 5, 0, 5, 5], np.float32),
        "zeros": np.array([2, 0, 3, 1, 0, 0, 5, 1, 2, 0.5, 1], np.float32),
        "one": np.array([1.5], np.float32),
        "none": np.zeros((0,), np.float32),
        "empty": np.zeros((3, 0), np.float32),
        "t": (((np.arange(60) * 37 + 11) % 61 - 30) / 16)
        .reshape(3, 5, 4)
        .astype(np.float32),
        "edges": np.array([-2, -1, 0.25, 0.25, 1, 3], np.float32),
        "p": np.array([0.1, 0.2, 0.3, 0.25, 0.15], np.float32),
        "m": np.array([[1, 2], [0, 1], [1, 2], [0, 0], [0, 1]], np.int32),
        "key": np.array([0, 42], np.uint32),
    }
    bits = np.where(np.arange(17) % 3 == 0, -1, 1) * ((np.arange(17) * 11 + 2) % 7)
    for kind in KINDS:
        dtype = ml_dtypes.bfloat16 if kind == "bfloat16" else kind
        values = np.abs(bits) if kind.startswith("u") else bits
        found[f"v_{kind}"] = (values > 0 if kind == "bool" else values).astype(dtype)
    return found


_GRAD = (
    "(lambda f, z: [vjp(f, z)[0], vjp(f, z)[1](n.ones_like(f(z)) * 2)[0], "
    "jvp(f, (z,), (n.arange(z.size, dtype=z.dtype).reshape(z.shape),))[1]])"
)


def expressions() -> list[str]:
    found = [
        "n.sort(x)", "n.sort(x, 0)", "n.sort(x, None)", "n.sort(x, descending=True)",
        "n.sort(s)", "n.sort(s, descending=True)", "n.argsort(s)", "n.sort(c)",
        "n.argsort(c)", "n.argsort(s, descending=True)", "n.argsort(k, axis=0)",
        "n.argsort(k, axis=None)", "n.argsort(k, descending=True)", "n.sort(none)",
        "n.argsort(none)", "n.sort(empty)", "n.sort(empty, 0)", "n.sort(one)",
        "n.sort(t, 1)", "n.argsort(t, 0)", "n.lexsort((x, k))", "n.lexsort((k, k2))",
        "n.lexsort((k, k2), axis=0)", "n.lexsort(k)", "n.sort_complex(x)",
        "n.sort_complex(k)", "n.partition(x, 3)", "n.partition(x, -2, axis=0)",
        "n.argpartition(x, 3)", "n.partition(ties, 4)", "lax.sort(x)",
        "lax.sort((k, x))", "lax.sort((k, k2, x), num_keys=2)",
        "lax.sort((k, k2, x), dimension=0, num_keys=3)", "lax.sort((x,))",
        "lax.sort([s, n.arange(12)])", "lax.sort_key_val(k, x)",
        "lax.sort_key_val(k, x, dimension=0)", "lax.top_k(x, 3)", "lax.top_k(s, 12)",
        "lax.top_k(ties, 5)", "lax.top_k(k, 2, axis=0)", "lax.top_k(x, 0)",
        "lax.top_k(k, 9)", "lax.approx_max_k(x, 2)", "lax.approx_min_k(x, 2)",
        "lax.approx_max_k(x, 2, reduction_dimension=0)",
        "n.searchsorted(edges, x)", "n.searchsorted(edges, x, side='right')",
        "n.searchsorted(n.sort(s), s)", "n.searchsorted(n.sort(s), s, side='right')",
        "n.searchsorted(ties, x, sorter=n.argsort(ties))",
        "n.searchsorted(edges, x, method='sort')",
        "n.searchsorted(edges, x, method='compare_all')", "n.searchsorted(none, x)",
        "n.searchsorted(edges, 0.25, side='right', method='scan_unrolled')",
        "n.digitize(x, edges)", "n.digitize(x, edges, right=True)",
        "n.digitize(x, edges[::-1])", "n.digitize(x, edges[::-1], right=True)",
        "n.median(x)", "n.median(x, 1)", "n.median(x, 0, keepdims=True)", "n.median(k)",
        "n.median(t, axis=(0, 2))", "n.median(t, axis=(0, 2), keepdims=True)",
        "n.median(s)", "n.nanmedian(s)", "n.nanmedian(s.reshape(3, 4), 1)",
        "n.median(v_float16)", "n.median(v_bfloat16)", "n.percentile(x, 30)",
        "n.percentile(x, n.array([10, 90]), axis=1)", "n.nanpercentile(s, 40.0)",
        "n.quantile(x, p)", "n.quantile(x, p, axis=0)",
        "n.quantile(x, p, axis=0, keepdims=True)", "n.nanquantile(s, p)",
        "n.quantile(x, 0.3, weights=y * y, axis=1, method='inverted_cdf')",
        "n.quantile(x, p, weights=y * y, axis=0, method='inverted_cdf')",
        "n.nanquantile(s, p, weights=n.arange(12.0), method='inverted_cdf')",
        "n.unique(k)", "n.unique(k, True, True, True)", "n.unique(s)",
        "n.unique(s, equal_nan=False)", "n.unique(k, size=3)", "n.unique(k, size=7)",
        "n.unique(k, True, True, True, size=7, fill_value=-1)", "n.unique(m, axis=0)",
        "n.unique(m, True, True, True, axis=0)", "n.unique(m, axis=1)",
        "n.unique(m, True, True, True, axis=0, size=6, fill_value=9)",
        "n.unique(none)", "n.unique(none, size=2, fill_value=1)", "n.unique_values(k)",
        "n.unique_counts(k)", "n.unique_inverse(k)", "n.unique_all(k)",
        "n.unique_all(k, size=6)", "n.union1d(k[0], k2[1])", "n.union1d(k, k2, size=8)",
        "n.union1d(k, k2 + 3, size=3)", "n.intersect1d(k[0], k2[1])",
        "n.intersect1d(k, k2, return_indices=True)",
        "n.intersect1d(k[0], k2[0], return_indices=True, size=5)",
        "n.intersect1d(k, k2, size=5, fill_value=-7)", "n.setdiff1d(k, k2)",
        "n.setdiff1d(k[0], k2[0], assume_unique=True)", "n.setdiff1d(k, k2, size=4)",
        "n.setdiff1d(k, k2, size=4, fill_value=-1)", "n.setxor1d(k + 1, k2)",
        "n.setxor1d(k + 1, k2, size=7)", "n.setxor1d(k + 1, k2, size=7, fill_value=-1)",
        "n.isin(k, k2)", "n.isin(k, k2[0, :2], invert=True)", "n.isin(x, y)",
        "n.isin(k, k2, method='sort')", "n.isin(k, k2, method='binary_search')",
        "n.isin(s, s)", "n.bincount(k.ravel())", "n.bincount(k.ravel(), length=3)",
        "n.bincount(k.ravel(), x.ravel())", "n.bincount(k[0], minlength=9)",
        "n.bincount(k.ravel() - 2, length=4)", "n.histogram(n.exp(x + y / 7))",
        "n.histogram(x + y / 7, bins=5)", "n.histogram(x, edges)", "n.histogram(k, 4)",
        "n.histogram(x, 4, range=(-1, 1))", "n.histogram(x, 4, weights=y)",
        "n.histogram(x, 4, density=True)", "n.histogram_bin_edges(x, 3)",
        "n.histogram_bin_edges(one, 3)", "n.histogramdd(t.reshape(20, 3), 2)",
        "n.histogram2d(x[0] + y[1] / 7, y[0] + x[1] / 11)",
        "n.histogram2d(x[0] + y[1] / 7, y[0] + x[1] / 11, bins=3)",
        "n.histogram2d(x[0], y[0], bins=[edges, 4], weights=x[1])",
        "n.histogramdd(t.reshape(20, 3), (2, 3, 4), density=True)",
        "n.nonzero(k, size=5)", "n.nonzero(k2, size=40, fill_value=-1)",
        "n.flatnonzero(k, size=4)", "n.argwhere(k, size=6, fill_value=7)",
        "n.nonzero(k2)", "n.argwhere(k2)", "n.trapezoid(x, y)",
        "n.trapezoid(x, dx=2.0)",
        "random.permutation(key, 20)", "random.permutation(key, 1)",
        "random.permutation(key, 3000)[:50]", "random.permutation(key, x)",
        "random.permutation(key, x, 1)", "random.permutation(key, x, independent=True)",
        "random.permutation(key, x, 1, True)", "random.permutation(key, ties)",
        "random.choice(key, 10, (3, 2), replace=False)",
        "random.choice(key, x, (2,), replace=False, axis=1)",
        "random.choice(key, 5, (3,), replace=False, p=p)",
        "random.choice(key, 5, (3,), replace=False, p=p, mode='high')",
        "random.choice(key, x[:, :5], (2, 2), replace=False, p=p, axis=1)",
        "random.categorical(key, x, shape=(2, 4), replace=False)",
        "random.categorical(key, x, 0, shape=(3, 9), replace=False)",
        "lax.associative_scan(n.add, x)",
        "lax.associative_scan(n.add, x, reverse=True)",
        "lax.associative_scan(lambda a, b: a * b, x, axis=1)",
        "lax.associative_scan(lambda a, b: (a[0] * b[0], a[1] * b[0] + b[1]), (x, y))",
        "lax.associative_scan(lambda a, b: (a[0] * b[0], a[1] * b[0] + b[1]), (x, y), "
        "reverse=True, axis=1)",
        "lax.associative_scan(lambda a, b: {'u': a['u'] + b['u']}, {'u': k}, axis=1)",
    ]  # fmt: skip
    for kind in KINDS:
        name = f"v_{kind}"
        found += [f"n.sort({name})", f"n.argsort({name})", f"lax.top_k({name}, 4)"]
        found += [f"n.unique({name}, return_counts=True)", f"n.cumsum({name})"]
        found += [f"n.cumprod({name})", f"n.cumsum({name}[:3])"]
        if kind != "bool":
            for function in ("cumsum", "cummax", "cummin"):
                found += [
                    f"lax.{function}({name})", f"lax.{function}({name}, reverse=True)"
                ]  # fmt: skip
    for method in ("linear", "lower", "higher", "midpoint", "nearest", "inverted_cdf"):
        for q in ("0.0", "0.3", "0.5", "1.0"):
            found.append(f"n.quantile(x, {q}, axis=1, method='{method}')")
        found.append(f"n.nanquantile(s, p, method='{method}')")
    for function in ("cumsum", "cumprod", "cummax", "cummin", "cumlogsumexp"):
        name = f"lax.{function}"
        for operand in ("x", "t", "empty", "s.reshape(2, 6)"):
            for axis in (0, 1):
                found.append(f"{name}({operand}, axis={axis})")
                found.append(f"{name}({operand}, axis={axis}, reverse=True)")
        found += [f"{name}(none)", f"{name}(one)"]
        whole = "c" if function in ("cumsum", "cumprod") else "(x[0] + 1j * y[0])"
        found += [f"{name}({whole})", f"{name}({whole}[:4])"]
        points = ("zeros", "ties", "zeros[:6]", "ties[:5]")
        if function == "cumlogsumexp":
            points = ("zeros", "x[0]")
        for point in points:
            for reverse in (False, True):
                found.append(
                    f"{_GRAD}(lambda z: {name}(z, reverse={reverse}), {point})"
                )
        found.append(f"{_GRAD}(lambda z: {name}(z, axis=1), x)")
    for function in ("cumsum", "cumprod", "nancumsum", "nancumprod"):
        found += [
            f"n.{function}({a})"
            for a in ("x", "k, 1", "s", "x, 0, dtype='float16'", "none", "one", "t, 1")
        ]
    found += [
        "n.cumulative_sum(x, axis=1)", "n.cumulative_sum(s, include_initial=True)",
        "n.cumulative_prod(k, axis=0, include_initial=True)",
        "n.cumulative_prod(v_int8, dtype='int32')", "n.cumulative_sum(v_uint8)",
        f"{_GRAD}(n.sort, x)", f"{_GRAD}(lambda z: n.sort(z, 0), t)",
        f"{_GRAD}(n.sort, ties)", f"{_GRAD}(lambda z: lax.top_k(z, 3)[0], x)",
        f"{_GRAD}(n.median, x)", f"{_GRAD}(lambda z: n.quantile(z, p, axis=1), x)",
        f"{_GRAD}(lambda z: lax.sort((k, z))[1], x)",
        f"{_GRAD}(lambda z: lax.sort((z, k * z))[1], x)",
        f"{_GRAD}(lambda z: lax.associative_scan(n.multiply, z), zeros)",
        f"{_GRAD}(lambda z: n.partition(z, 2), x)",
        f"{_GRAD}(lambda z: n.unique(z, size=9), zeros)",
        f"{_GRAD}(lambda z: n.histogram(y, edges, weights=z)[0], x)",
    ]  # fmt: skip
    return found


def save(found: dict[str, list[np.ndarray[Any, Any]]]) -> None:
    """Writes what JAX gave, the leaves of all results one after the other as bytes."""
    index = {
        name: [(v.dtype.name, v.shape) for v in values]
        for name, values in found.items()
    }
    parts = b"".join(v.tobytes() for values in found.values() for v in values)
    np.savez_compressed(
        PATH,
        index=np.frombuffer(json.dumps(index).encode(), np.uint8),
        values=np.frombuffer(parts, np.uint8),
    )


def recorded() -> dict[str, list[np.ndarray[Any, Any]]]:
    """What JAX gave by expression: the leaves of the result."""
    with np.load(PATH) as file:
        index = json.loads(file["index"].tobytes())
        values = file["values"].tobytes()
    found: dict[str, list[np.ndarray[Any, Any]]] = {}
    start = 0
    for name, leaves in index.items():
        found[name] = []
        for dtype, shape in leaves:
            kind = ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype
            size = int(np.prod(shape, dtype=np.int64))
            part = np.frombuffer(values, np.dtype(kind), size, start)
            found[name].append(part.reshape(shape))
            start += part.nbytes
    return found
