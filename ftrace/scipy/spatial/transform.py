"""Rotations in three dimensions, as unit quaternions (x, y, z, w).

Euler's angles: Bernardes, Viollet: Quaternion to Euler angles conversion (2022).
Matrices: Markley: Unit quaternion from rotation matrix (2008).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import reduce
from itertools import pairwise
from typing import Any, NamedTuple

from ftrace import dtypes, numpy as fnp
from ftrace.errors import ArgumentError, ShapeError, ValueRangeError
from ftrace.ground.missing_names import tell_missing
from ftrace.numpy.axes import as_value, cast, need_shape
from ftrace.random.distributions import normal
from ftrace.trace.eager.checked_calls import without_checks
from ftrace.trace.tracing.tracer import Value

__all__ = ["Rotation", "Slerp"]

#: An angle below which series take the place of quotients, whose error is there less
#: than the rounding of float32.
_SMALL = 1e-3


class Rotation(NamedTuple):
    """One rotation, or an array of them.

    Attributes:
      quat: (…, 4).
    """

    quat: Any

    @classmethod
    def concatenate(cls, rotations: Sequence[Rotation]) -> Rotation:
        """One after the other."""
        return cls(fnp.concatenate([r.quat for r in rotations]))

    @classmethod
    def from_euler(cls, seq: str, angles: Value, degrees: bool = False) -> Rotation:
        """By angles about axes.

        Args:
          seq: up to three of "xyz", about fixed axes, or of "XYZ", about those that
            turn along.
          angles: (…, len(seq)), or a number for one axis.

        Raises:
          ValueRangeError: such axes there are not.
        """
        axes = _axes(seq, (1, 2, 3))
        x = fnp.atleast_1d(_inexact(angles))
        if x.shape[-1] != len(axes):
            raise ShapeError(
                f"from_euler: {len(axes)} angles are required for {seq!r}, got the "
                f"shape {x.shape}"
            )
        half = (fnp.deg2rad(x) if degrees else x) / 2
        turns: list[Any] = []
        for k, axis in enumerate(axes):
            cosine, sine = fnp.cos(half[..., k]), fnp.sin(half[..., k])
            parts = [fnp.zeros_like(sine)] * 3
            parts[axis] = sine
            turns.append(fnp.stack([*parts, cosine], -1))
        return cls(reduce(_product, turns if seq.isupper() else turns[::-1]))

    @classmethod
    @without_checks
    def from_matrix(cls, matrix: Value) -> Rotation:
        """By orthogonal matrices (…, 3, 3)."""
        m = _inexact(matrix)
        trace = fnp.trace(m, axis1=-2, axis2=-1)[..., None, None]
        square = m + m.mT + (1 - trace) * fnp.eye(3, dtype=m.dtype)
        skew = m.mT - m
        axis = fnp.stack([skew[..., i - 2, i - 1] for i in range(3)], -1)[..., None]
        # 4 q qᵀ, of which the row of the greatest part of q tells most.
        last = fnp.concatenate([axis.mT, 1 + trace], -1)
        rows = fnp.concatenate([fnp.concatenate([square, axis], -1), last], -2)
        diagonal = fnp.diagonal(m, axis1=-2, axis2=-1)
        sizes = fnp.concatenate([diagonal, trace[..., 0]], -1)
        best = fnp.argmax(sizes, -1)[..., None, None]
        found = fnp.take_along_axis(rows, best, -2)[..., 0, :]
        return cls.from_quat(found)

    @classmethod
    def from_mrp(cls, mrp: Value) -> Rotation:
        """By modified Rodrigues parameters (…, 3)."""
        m = _inexact(mrp)
        more = _dot(m, m) + 1
        return cls(fnp.concatenate([2 * m, 2 - more], -1) / more)

    @classmethod
    def from_quat(cls, quat: Value) -> Rotation:
        """By quaternions (…, 4), which are normalised."""
        q = _inexact(quat)
        return cls(q / fnp.sqrt(_dot(q, q)))

    @classmethod
    def from_rotvec(cls, rotvec: Value, degrees: bool = False) -> Rotation:
        """By vectors (…, 3) along the axis, as long as the angle."""
        v = _inexact(rotvec)
        v = fnp.deg2rad(v) if degrees else v
        square = _dot(v, v)
        angle = fnp.sqrt(square)
        series = 0.5 - square / 48 + square * square / 3840
        scale = fnp.where(angle <= _SMALL, series, fnp.sin(angle / 2) / angle)
        return cls(fnp.concatenate([scale * v, fnp.cos(angle / 2)], -1))

    @classmethod
    def identity(cls, num: int | None = None, dtype: Any = float) -> Rotation:
        """What turns nothing; with `num` so many times."""
        one = fnp.array([0, 0, 0, 1], dtype)
        return cls(one if num is None else fnp.tile(one, (num, 1)))

    @classmethod
    def random(cls, random_key: Value, num: int | None = None) -> Rotation:
        """Of the uniform distribution: the direction of four normal draws."""
        return cls.from_quat(normal(random_key, (4,) if num is None else (num, 4)))

    def __getitem__(self, indexer: Any) -> Any:
        if self.single:
            raise ArgumentError("a single rotation has no elements")
        return Rotation(self.quat[indexer])

    def __len__(self) -> int:
        if self.single:
            raise ArgumentError("a single rotation has no length")
        return self.quat.shape[0]

    def __mul__(self, other: Any) -> Rotation:  # pyright: ignore[reportIncompatibleMethodOverride]
        """First the other one, then this."""
        return Rotation.from_quat(_product(self.quat, other.quat))

    def apply(self, vectors: Value, inverse: bool = False) -> Any:
        """The vectors (…, 3), turned; or turned back."""
        matrix = self.as_matrix()
        if inverse:
            matrix = fnp.swapaxes(matrix, -1, -2)
        return (matrix @ as_value(vectors)[..., None])[..., 0]

    def as_euler(self, seq: str, degrees: bool = False) -> Any:
        """Angles about three axes, see `from_euler`: (…, 3).

        Where two of them do the same, the last one is 0.
        """
        axes, moving = _axes(seq, (3,)), seq.isupper()
        i, j, k = axes[::-1] if moving else axes
        proper = i == k
        k = 3 - i - j if proper else k
        sign = (i - j) * (j - k) * (k - i) // 2
        q = self.quat
        a, b, c, d = q[..., 3], q[..., i], q[..., j], q[..., k] * sign
        if not proper:
            a, b, c, d = a - c, b + d, c + a, d - b
        middle = 2 * fnp.arctan2(fnp.hypot(c, d), fnp.hypot(a, b))
        total, difference = fnp.arctan2(b, a), fnp.arctan2(d, c)
        first, last = total - difference, total + difference
        if moving:
            first, last = last, first
        none, whole = fnp.abs(middle) <= 1e-7, fnp.abs(middle - math.pi) <= 1e-7
        turned = 2 * difference * (1 if moving else -1)
        first = fnp.where(none, 2 * total, fnp.where(whole, turned, first))
        last = fnp.where(none | whole, 0, last)
        if not proper:
            middle = middle - math.pi / 2
            first, last = (first * sign, last) if moving else (first, last * sign)
        angles = fnp.stack([first, middle, last], -1)
        angles = fnp.where(angles < -math.pi, angles + 2 * math.pi, angles)
        angles = fnp.where(angles > math.pi, angles - 2 * math.pi, angles)
        return fnp.rad2deg(angles) if degrees else angles

    @without_checks
    def as_matrix(self) -> Any:
        """(…, 3, 3)."""
        v, w = self.quat[..., None, :3], self.quat[..., None, 3:]
        one = fnp.eye(3, dtype=v.dtype)
        across = fnp.cross(v, one).mT
        return (w * w - _dot(v, v)) * one + 2 * (v.mT * v + w * across)

    def as_mrp(self) -> Any:
        """Modified Rodrigues parameters (…, 3)."""
        q = fnp.where(self.quat[..., 3:] < 0, -self.quat, self.quat)
        return q[..., :3] / (1 + q[..., 3:])

    def as_rotvec(self, degrees: bool = False) -> Any:
        """Vectors (…, 3) along the axis, as long as the angle, from 0 to π."""
        q = fnp.where(self.quat[..., 3:] < 0, -self.quat, self.quat)
        v = q[..., :3]
        angle = 2 * fnp.arctan2(fnp.sqrt(_dot(v, v)), q[..., 3:])
        square = angle * angle
        series = 2 + square / 12 + 7 * square * square / 2880
        scale = fnp.where(angle <= _SMALL, series, angle / fnp.sin(angle / 2))
        return (fnp.rad2deg(scale) if degrees else scale) * v

    def as_quat(self, canonical: bool = False, scalar_first: bool = False) -> Any:
        """(…, 4); `canonical`: the first that is not 0 of w, x, y, z is positive."""
        q = self.quat
        if canonical:
            x, y, z, w = fnp.moveaxis(fnp.sign(q), -1, 0)
            lead = fnp.where(w != 0, w, fnp.where(x != 0, x, fnp.where(y != 0, y, z)))
            q = fnp.where(lead[..., None] < 0, -q, q)
        return fnp.roll(q, 1, -1) if scalar_first else q

    def inv(self) -> Rotation:
        """The one that turns back."""
        q = self.quat
        return Rotation(fnp.concatenate([-q[..., :3], q[..., 3:]], -1))

    def magnitude(self) -> Any:
        """The angle (…), from 0 to π."""
        v = self.quat[..., :3]
        size = fnp.sqrt(_dot(v, v)[..., 0])
        return 2 * fnp.arctan2(size, fnp.abs(self.quat[..., 3]))

    def mean(self, weights: Value | None = None) -> Rotation:
        """The rotation that is nearest to all, by the squares of chords.

        Markley and others: Averaging quaternions (2007).

        Args:
          weights: one per rotation; by default 1.
        """
        q, count = self.quat, len(self)
        w = fnp.ones(count, q.dtype) if weights is None else cast(weights, q.dtype)
        need_shape(w, "mean: weights", (count,))
        return Rotation(fnp.linalg.eigh((w[None] * q.T) @ q)[1][:, -1])

    @property
    def single(self) -> bool:
        """Is it one, and no array?"""
        return self.quat.ndim == 1


class Slerp(NamedTuple):
    """Rotations at times, and between them with a constant velocity.

    Attributes:
      times: (n,), which increase.
      timedelta: their differences.
      rotations: all but the last.
      rotvecs: from each to the next.
    """

    times: Any
    timedelta: Any
    rotations: Rotation
    rotvecs: Any

    @classmethod
    def init(cls, times: Value, rotations: Rotation) -> Slerp:
        """Makes one.

        Raises:
          ArgumentError: `rotations` is something else.
          ValueRangeError, ShapeError: there are less than two, or not as many times.
        """
        given: Any = rotations
        if not isinstance(given, Rotation):
            raise ArgumentError(
                f"Slerp: rotations must be a Rotation, got {type(given).__name__}"
            )
        if rotations.single or len(rotations) == 1:
            raise ValueRangeError("Slerp: at least two rotations are required, got one")
        t = cast(fnp.asarray(times), rotations.quat.dtype)
        need_shape(t, "Slerp: times", (len(rotations),))
        first, second = Rotation(rotations.quat[:-1]), Rotation(rotations.quat[1:])
        return cls(t, fnp.diff(t), first, (first.inv() * second).as_rotvec())

    def __call__(self, times: Value) -> Rotation:
        """The rotations at times (n,) or ()."""
        t = cast(fnp.asarray(times), self.times.dtype)
        if t.ndim > 1:
            raise ShapeError(f"Slerp: times must be a vector, got shape {t.shape}")
        last = self.timedelta.shape[0] - 1
        k = fnp.clip(fnp.searchsorted(self.times, t) - 1, 0, last)
        part = (t - self.times[k]) / self.timedelta[k]
        step = Rotation.from_rotvec(self.rotvecs[k] * part[..., None])
        return Rotation(self.rotations.quat[k]) * step


def _axes(seq: str, counts: Sequence[int]) -> list[int]:
    """The numbers of the axes."""
    found = ["xyz".find(c) for c in seq.lower()]
    same = any(a == b for a, b in pairwise(found))
    one_case = seq.isupper() or seq.islower()
    if len(seq) not in counts or -1 in found or same or not one_case:
        raise ValueRangeError(
            f"Euler's axes must be {' or '.join(map(str, counts))} letters of 'xyz' or "
            f"of 'XYZ', no two the same in a row, got {seq!r}"
        )
    return found


def _inexact(x: Value) -> Any:
    x = fnp.asarray(x)
    return cast(x, dtypes.to_inexact(x.dtype))


def _dot(x: Any, y: Any) -> Any:
    return (x * y).sum(-1, keepdims=True)


def _product(p: Any, q: Any) -> Any:
    """Hamilton's product."""
    v, w, a, b = p[..., :3], q[..., :3], p[..., 3:], q[..., 3:]
    vector = a * w + b * v + fnp.cross(v, w)
    return fnp.concatenate([vector, a * b - _dot(v, w)], -1)


tell_missing(__name__)
