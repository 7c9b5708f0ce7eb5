"""A wave in a box whose squares lie on different devices.

    python examples/stencil.py                          4 · 2 devices of this process
    mpirun -n 4 python examples/stencil.py              four processes

Each device computes its rectangle of the field. A point needs its four neighbours, of
which some are the devices' next to it: before each step of time the edges go there by
`ppermute`, within a `scan`, within `shard_map`. A device at the wall has no neighbour
and receives zeros, which is what holds a membrane at its frame.

The adjoint runs through the same exchanges backwards: the gradient of what a point
hears in the end says from where it hears it.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from harness import Progress, compare, say, start, whole

import ftrace as ft
import ftrace.numpy as fnp
from ftrace import lax
from ftrace.sharding import AxisType, NamedSharding, PartitionSpec as P

ROWS, COLUMNS, EVERY = 64, 128, 10
SPEED = np.float32(0.25)  # the square of c·dt/dx; below 0.5 it is stable
EAR = 36, 44

Field = Any
Step = tuple[Field, Field]


def edges(u: Field, name: str, axis: int) -> Field:
    """A part of the field and, along an axis, the next rows of both neighbours."""
    n = lax.axis_size(name)
    first = lax.slice_in_dim(u, 0, 1, axis=axis)
    last = lax.slice_in_dim(u, u.shape[axis] - 1, u.shape[axis], axis=axis)
    before = lax.ppermute(last, name, [(i, i + 1) for i in range(n - 1)])
    after = lax.ppermute(first, name, [(i + 1, i) for i in range(n - 1)])
    return fnp.concatenate([before, u, after], axis)


def advance(u: Field, past: Field, rows: Field, columns: Field) -> Step:
    """A step of time, of a field that is given with a border above, and beside it."""
    around = rows[:-2] + rows[2:] + columns[:, :-2] + columns[:, 2:]
    return 2 * u - past + SPEED * (around - 4 * u), u


def on_parts(u: Field, past: Field) -> Step:
    """Some steps, on each device of the mesh around."""

    def step(now: Step, _: Any) -> tuple[Step, None]:
        rows, columns = edges(now[0], "rows", 0), edges(now[0], "columns", 1)
        return advance(*now, rows, columns), None

    return lax.scan(step, (u, past), length=EVERY)[0]


@ft.jit
def on_one(u: Field, past: Field) -> Step:
    """The same steps of the whole field."""

    def step(now: Step, _: Any) -> tuple[Step, None]:
        rows, columns = (
            fnp.pad(now[0], ((1, 1), (0, 0))),
            fnp.pad(now[0], ((0, 0), (1, 1))),
        )
        return advance(*now, rows, columns), None

    return lax.scan(step, (u, past), length=EVERY)[0]


def drop() -> np.ndarray:
    """A bump of the field, at rest."""
    y, x = np.mgrid[:ROWS, :COLUMNS]
    return np.exp(-((y - 40) ** 2 + (x - 40) ** 2) / 18).astype(np.float32)


def heard(run: Any, u: Field) -> Any:
    """What there is at one point after some steps, of a field at rest before."""
    return run(u, u)[0][EAR]


def picture(u: np.ndarray) -> str:
    shades = np.array(list("█▓▒░ ·∘○●"))  # troughs, rest, crests
    level = np.clip(u[::4, ::2] / (abs(u).max() + 1e-9), -1, 1)
    rows = shades[np.round(level * 4).astype(int) + 4]
    return "\n".join("".join(row) for row in rows)


def main() -> int:
    options = start(__doc__, steps=200)
    n = ft.device_count()
    columns = 2 if n > 2 else 1
    mesh = ft.make_mesh(
        (n // columns, columns), ("rows", "columns"), (AxisType.Auto,) * 2
    )
    spec = P("rows", "columns")
    on_many = ft.jit(
        ft.shard_map(on_parts, mesh=mesh, in_specs=(spec, spec), out_specs=(spec, spec))
    )
    energy = ft.jit(lambda u, past: ((u - past) ** 2).sum() / 2)

    field = ft.device_put(drop(), NamedSharding(mesh, spec))
    many, one = (field, field), (drop(), drop())
    calls = options.steps // EVERY
    show = Progress(calls)
    energies: list[tuple[float, float]] = []
    for _ in range(calls):
        many, one = on_many(*many), on_one(*one)
        energies.append((float(energy(*many)), float(energy(*one))))
        show(kinetic_energy=energies[-1][0])
    say(picture(whole(many[0])))
    wrong = compare("field", many, one, 0)
    of_many, of_one = np.array(energies).T
    wrong += compare("energies", of_many, of_one, 1e-5)

    from_many = ft.grad(lambda u: heard(on_many, u))(field)
    from_one = ft.grad(lambda u: heard(on_one, u))(drop())
    return wrong + compare("adjoint", from_many, from_one, 1e-6)


if __name__ == "__main__":
    sys.exit(main())
