"""Layers of long short-term memory (Hochreiter, Schmidhuber 1997).

All weights are one vector, as cuDNN has it: of each layer and direction the matrices of
the input and of the state, then of each both biases. The rows of a matrix are those of
the input gate, the forget gate, the cell and the output gate, one after the other.
"""

from __future__ import annotations

import math
from functools import partial
from itertools import accumulate
from typing import Any

from ftrace import numpy as fnp
from ftrace.errors import ArgumentError, ValueRangeError
from ftrace.ground.missing_names import tell_missing
from ftrace.lax.control import scan
from ftrace.nn.activations import sigmoid
from ftrace.random.distributions import uniform
from ftrace.trace.tracing.tracer import Value

__all__ = [
    "get_num_params_in_lstm", "init_lstm_weight", "lstm", "lstm_ref",
    "unpack_lstm_weights",
]  # fmt: skip


def _shapes(
    input_size: int, hidden_size: int, num_layers: int, bidirectional: bool
) -> list[tuple[int, ...]]:
    """Of all parts of the vector, in order."""
    directions = 2 if bidirectional else 1
    count = num_layers * directions
    rows = 4 * hidden_size
    matrices: list[tuple[int, ...]] = []
    for layer in range(count):
        width = input_size if layer < directions else directions * hidden_size
        matrices += [(rows, width), (rows, hidden_size)]
    return matrices + [(rows,)] * (2 * count)


def get_num_params_in_lstm(
    input_size: int, hidden_size: int, num_layers: int, bidirectional: bool
) -> int:
    """How many weights there are.

    Args:
      input_size: the size of each element of the sequence.
      hidden_size: the size of the state.
      num_layers: how many layers there are, one behind the other.
      bidirectional: each layer runs both ways.

    Example:
      >>> from ftrace.experimental import rnn
      >>> rnn.get_num_params_in_lstm(3, 2, 1, False)
      56
    """
    shapes = _shapes(input_size, hidden_size, num_layers, bidirectional)
    return sum(map(math.prod, shapes))


def init_lstm_weight(
    rng: Value, input_size: int, hidden_size: int, num_layers: int, bidirectional: bool
) -> Any:
    """Uniform draws between ±1/√hidden_size, float32.

    Args:
      rng: a random key.
      input_size: the size of each element of the sequence.
      hidden_size: the size of the state.
      num_layers: how many layers there are.
      bidirectional: each layer runs both ways.

    Returns:
      A vector of all weights of all layers.
    """
    count = get_num_params_in_lstm(input_size, hidden_size, num_layers, bidirectional)
    bound = math.sqrt(1 / hidden_size)
    return uniform(rng, (count,), "float32", -bound, bound)


def unpack_lstm_weights(
    weights: Value, input_size: int, hidden_size: int, num_layers: int,
    bidirectional: bool,
) -> tuple[dict[int, Any], dict[int, Any], dict[int, Any], dict[int, Any]]:  # fmt: skip
    """Matrices of the input and of the state, and both biases, by layer and direction.

    Args:
      weights: the vector, see `init_lstm_weight`.
      input_size: the size of each element of the sequence.
      hidden_size: the size of the state.
      num_layers: how many layers there are.
      bidirectional: each layer runs both ways.

    Returns:
      W_ih, W_hh, b_ih, b_hh: arrays by number; with two directions those of the layer
      k are 2k and 2k + 1.
    """
    shapes = _shapes(input_size, hidden_size, num_layers, bidirectional)
    ends = [*accumulate(map(math.prod, shapes))]
    rows = zip(fnp.split(fnp.asarray(weights), ends)[:-1], shapes, strict=True)
    parts = [x.reshape(shape) for x, shape in rows]
    half = len(parts) // 2
    rows = parts[0:half:2], parts[1:half:2], parts[half::2], parts[half + 1 :: 2]
    w_ih, w_hh, b_ih, b_hh = (dict(enumerate(row)) for row in rows)
    return w_ih, w_hh, b_ih, b_hh


def lstm(
    x: Value, h_0: Value, c_0: Value, weights: Value, seq_lengths: Value,
    input_size: int, hidden_size: int, num_layers: int, dropout: float,
    bidirectional: bool, precision: Any = None,
) -> tuple[Any, Any, Any]:  # fmt: skip
    """The layers, one after the other.

    Args:
      x: (batch, time, input_size).
      h_0, c_0: states and cells at first, (layers · directions, batch, hidden_size).
      weights: the vector, see `init_lstm_weight`.
      seq_lengths: int32 (batch,): what comes later is zero.
      input_size, hidden_size, num_layers, bidirectional: how the vector is taken apart.
      dropout: 0; the layers drop nothing.
      precision: accepted, without effect.

    Returns:
      y (batch, time, directions · hidden_size), and the last states and cells.

    Raises:
      ValueRangeError: there is dropout.
    """
    parts = unpack_lstm_weights(
        weights, input_size, hidden_size, num_layers, bidirectional
    )
    return lstm_ref(x, h_0, c_0, *parts, seq_lengths, input_size, hidden_size,
                    num_layers, dropout, bidirectional)  # fmt: skip


def lstm_ref(
    x: Value, h_0: Value, c_0: Value, W_ih: Any, W_hh: Any, b_ih: Any, b_hh: Any,
    seq_lengths: Value, input_size: int, hidden_size: int, num_layers: int,
    dropout: float, bidirectional: bool,
) -> tuple[Any, Any, Any]:  # fmt: skip
    """`lstm`, its weights taken apart by `unpack_lstm_weights`.

    Args:
      x: (batch, time, input_size).
      h_0, c_0: states and cells at first, (layers · directions, batch, hidden_size).
      W_ih, W_hh, b_ih, b_hh: the weights, by layer and direction.
      seq_lengths: int32 (batch,): what comes later is zero.
      input_size, hidden_size: accepted; the weights say them.
      num_layers: how many layers there are.
      dropout: 0; the layers drop nothing.
      bidirectional: each layer runs both ways.

    Returns:
      y (batch, time, directions · hidden_size), and the last states and cells.

    Raises:
      ValueRangeError: there is dropout.
      ArgumentError: `seq_lengths` are not int32.
    """
    if dropout:
        raise ValueRangeError(f"lstm: dropout must be 0, got {dropout}")
    lengths = fnp.asarray(seq_lengths)
    if lengths.dtype != "int32":
        raise ArgumentError(f"lstm: seq_lengths must be int32, got {lengths.dtype}")
    directions = 2 if bidirectional else 1
    sequence = fnp.swapaxes(fnp.asarray(x), 0, 1)
    begun = fnp.asarray(h_0), fnp.asarray(c_0)
    last: list[Any] = []
    for layer in range(num_layers):
        outputs: list[Any] = []
        for direction in range(directions):
            k = directions * layer + direction
            cell = partial(_cell, W_ih[k].T, W_hh[k].T, (b_ih[k] + b_hh[k])[None])
            given = _flip(sequence, lengths) if direction else sequence
            h, c = scan(cell, (begun[0][k], begun[1][k]), given)[1]
            last.append([x[lengths - 1, fnp.arange(x.shape[1])] for x in (h, c)])
            inside = fnp.arange(h.shape[0])[:, None] < lengths[None]
            h = fnp.where(inside[..., None], h, 0)
            outputs.append(_flip(h, lengths) if direction else h)
        sequence = fnp.concatenate(outputs, -1)
    h_n, c_n = (fnp.stack(part) for part in zip(*last, strict=True))
    return fnp.swapaxes(sequence, 0, 1), h_n, c_n


def _cell(w_ih: Any, w_hh: Any, bias: Any, carry: Any, x: Any) -> tuple[Any, Any]:
    h, c = carry
    i, f, g, o = fnp.split(x @ w_ih + h @ w_hh + bias, 4, -1)
    c = sigmoid(f) * c + sigmoid(i) * fnp.tanh(g)
    carry = (sigmoid(o) * fnp.tanh(c), c)
    return carry, carry


def _flip(sequence: Any, lengths: Any) -> Any:
    """Each sequence backwards, what is behind its end in its place."""
    count = sequence.shape[0]
    places = (lengths[None] - 1 - fnp.arange(count)[:, None]) % count
    return fnp.take_along_axis(sequence, places[..., None], 0)


tell_missing(__name__)
