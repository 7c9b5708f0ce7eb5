"""Laws that hold for every primitive: derivative, transpose, batching, devices."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ftrace import dtypes
from ftrace.backends.base import get_device
from ftrace.ground.limits import Limits
from ftrace.lower import lower
from ftrace.trace.autodiff import jvp_nodes, tangent_variable, transpose_nodes
from ftrace.trace.avals import ShapedArray
from ftrace.trace.batching import batch_nodes
from ftrace.trace.evaluate import evaluate_graph
from ftrace.trace.graph import Graph, Node
from ftrace.trace.primitives.primitive import PRIMITIVES
from ftrace.trace.primitives.sources import SOURCES, const, variable
from tests.support.primitive_samples import SAMPLES, Sample

# Kinks, jumps and integers have no slope that a finite difference could measure.
INEXACT = [s for s in SAMPLES if any(dtypes.is_inexact(a.dtype) for a in s.arrays)]
#: What moves otherwise than its operands do.
ROUGH = ("nextafter", "bitcast", "is_finite", "widened")
SMOOTH = [s for s in INEXACT if s.name not in ROUGH]
LINEAR = [s for s in INEXACT if PRIMITIVES[s.name].transpose is not None]
EPSILON = 1e-6


def variables(sample: Sample) -> list[Node]:
    return [variable(a, 0, i) for i, a in enumerate(sample.avals)]


def graph_of(sample: Sample) -> Graph:
    nodes = variables(sample)
    return Graph(tuple(nodes), (sample.build(*nodes),))


def value(sample: Sample, arrays: Any = None) -> Any:
    return evaluate_graph(graph_of(sample), *(arrays or sample.arrays))[0]


def direction(array: Any, seed: int) -> Any:
    rng = np.random.default_rng(seed)
    if dtypes.is_complex(array.dtype):
        return rng.normal(size=array.shape) + 1j * rng.normal(size=array.shape)
    return np.asarray(rng.normal(size=array.shape))


def test_every_primitive_has_a_sample() -> None:
    assert {s.name for s in SAMPLES} == set(PRIMITIVES) - {op.name for op in SOURCES}


@pytest.mark.parametrize("sample", SAMPLES, ids=str)
def test_value_has_the_type_that_the_record_promises(sample: Sample) -> None:
    node = graph_of(sample).outputs[0]
    result = value(sample)
    assert result.shape == node.shape
    assert result.dtype == node.dtype


@pytest.mark.parametrize("sample", SMOOTH, ids=str)
def test_jvp_is_the_finite_difference(sample: Sample) -> None:
    nodes = variables(sample)
    output = sample.build(*nodes)
    varying = [i for i, n in enumerate(nodes) if dtypes.is_inexact(n.dtype)]
    tangents = {nodes[i]: tangent_variable(nodes[i].aval, i) for i in varying}
    (tangent,) = jvp_nodes([output], tangents)
    steps = {i: direction(sample.arrays[i], i) for i in varying}
    if sample.name in ("stop_gradient", "sign", "floor", "ceil", "trunc", "round"):
        assert tangent is None
        return
    if tangent is None:
        assert not dtypes.is_inexact(output.dtype)
        return
    graph = Graph((*nodes, *tangents.values()), (tangent,))
    got = evaluate_graph(graph, *sample.arrays, *[steps[i] for i in varying])[0]

    def moved(amount: float) -> Any:
        arrays = [
            a + amount * steps[i] if i in steps else a
            for i, a in enumerate(sample.arrays)
        ]
        return value(sample, arrays)

    want = (moved(EPSILON) - moved(-EPSILON)) / (2 * EPSILON)
    np.testing.assert_allclose(got, want, rtol=2e-5, atol=1e-6)


@pytest.mark.parametrize("sample", LINEAR, ids=str)
def test_transpose_is_the_adjoint(sample: Sample) -> None:
    """<A x, y> = <x, Aᵀ y> for each operand in which the primitive is linear."""
    nodes = variables(sample)
    output = sample.build(*nodes)
    if not dtypes.is_inexact(output.dtype):
        return
    linear = PRIMITIVES[sample.name].linear
    allowed = linear if isinstance(linear, tuple) else range(len(nodes))
    for i in allowed:
        others = [a for k, a in enumerate(sample.arrays) if k != i]
        zeroed = [
            const(0, n.dtype, n.shape) if linear and k in allowed and k != i else n
            for k, n in enumerate(nodes)
        ]
        applied = sample.build(*zeroed)
        ct = variable(ShapedArray.of(output.shape, output.dtype), 0, 99)
        (back,) = transpose_nodes([applied], [nodes[i]], [ct])
        x = sample.arrays[i] + 0 * direction(sample.arrays[i], 3)
        y = direction(np.zeros(output.shape, output.dtype), 4)
        ahead = Graph(tuple(nodes), (applied,))
        arrays = list(sample.arrays)
        arrays[i] = x
        forward = evaluate_graph(ahead, *arrays)[0]
        if back is None:
            assert not np.any(forward)
            continue
        rest = [n for k, n in enumerate(nodes) if k != i]
        pulled = evaluate_graph(Graph((*rest, ct), (back,)), *others, y)[0]
        left, right = np.sum(forward * y), np.sum(x * pulled)
        if np.iscomplexobj(left) != np.iscomplexobj(right):  # JAX's real pairing
            left, right = np.real(left), np.real(right)
        if sample.name in ("conj", "real", "imag"):
            left, right = np.real(left), np.real(right)
        np.testing.assert_allclose(left, right, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("sample", SAMPLES, ids=str)
def test_batching_is_a_loop(sample: Sample) -> None:
    count = len(sample.arrays)
    for batched in {tuple(range(count)), (0,), (count - 1,)}:
        _assert_batched(sample, batched)


def _assert_batched(sample: Sample, batched: tuple[int, ...]) -> None:
    size = 3
    nodes = variables(sample)
    leaves: dict[Node, Node] = {}
    inputs: list[Node] = []
    for i, node in enumerate(nodes):
        if i in batched:
            aval = ShapedArray.of((size, *node.shape), node.dtype)
            leaves[node] = variable(aval, 0, i)
        inputs.append(leaves.get(node, node))
    ((output, has),) = batch_nodes([sample.build(*nodes)], leaves, size)
    assert has
    arrays = [
        np.stack([np.roll(a, k) for k in range(size)]) if i in batched else a
        for i, a in enumerate(sample.arrays)
    ]
    got = evaluate_graph(Graph(tuple(inputs), (output,)), *arrays)[0]
    lanes = [
        value(sample, [a[k] if i in batched else a for i, a in enumerate(arrays)])
        for k in range(size)
    ]
    np.testing.assert_allclose(got, np.stack(lanes), rtol=1e-12, atol=1e-12)


def narrow(array: Any) -> Any:
    to = {dtypes.float64: np.float32, dtypes.complex128: np.complex64}
    return array.astype(to.get(array.dtype, array.dtype))


@pytest.mark.parametrize("device", ["interpreter", "cpu", "opencl"])
@pytest.mark.parametrize("wide", [True, False], ids=["64", "32"])
def test_devices_agree_with_evaluation(device: str, wide: bool) -> None:
    """All samples in one program, so that compilers are started once."""
    chosen = get_device(device)
    inputs: list[Node] = []
    outputs: list[Node] = []
    arrays: list[Any] = []
    names: list[str] = []
    for sample in SAMPLES:
        if sample.name == "bitcast" and not wide:
            continue
        values = sample.arrays if wide else tuple(narrow(a) for a in sample.arrays)
        nodes = [
            variable(ShapedArray.of(a.shape, a.dtype), 0, len(inputs) + i)
            for i, a in enumerate(values)
        ]
        inputs += nodes
        arrays += values
        outputs.append(Sample(sample.name, values, sample.arg).build(*nodes))
        names.append(str(sample))
    graph = Graph(tuple(inputs), tuple(outputs))
    program = lower(graph, Limits(chosen.limits.max_buffers)).program
    buffers = chosen.compile(program)([chosen.copy_in(a) for a in arrays])
    wanted = evaluate_graph(graph, *arrays)
    tolerance = 1e-11 if wide else 3e-6
    for name, buffer, node, want in zip(names, buffers, outputs, wanted, strict=True):
        got = chosen.copy_out(buffer, node.dtype, node.size).reshape(node.shape)
        np.testing.assert_allclose(
            got, want, rtol=tolerance, atol=tolerance, err_msg=name
        )
