"""What `test_hosts.py` starts on each of four hosts: steps of training.

    python on_each_host.py FOLDER STEPS

Each process writes into the folder what it ends with.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from socket import gethostname
from typing import Any

import numpy as np

import ftrace as ft
import ftrace.numpy as fnp
from ftrace import P

folder, steps = Path(sys.argv[1]), int(sys.argv[2])
ft.distributed.initialize()
mesh = ft.make_mesh((ft.device_count(),), ("data",))
random = np.random.default_rng(0)
x = random.normal(size=(64, 200)).astype(np.float32)
params = [random.normal(size=(200, 200)).astype(np.float32) / 14 for _ in range(3)]


def loss(params: Any, x: Any) -> Any:
    for w in params:
        x = fnp.tanh(x @ w)
    return (x**2).mean()


@ft.jit
def step(params: Any, x: Any) -> Any:
    value, grads = ft.value_and_grad(loss)(params, x)
    return value, [p - 0.5 * g for p, g in zip(params, grads, strict=True)]


report = folder / f"{ft.process_index()}"
here = ft.device_put(x, ft.NamedSharding(mesh, P("data")))
alone, divided = params, params
try:
    for i in range(steps):
        value, divided = step(divided, here)
        if i < 3:
            wanted, alone = step(alone, x)
            np.testing.assert_allclose(value, wanted, rtol=1e-4)
        if i == 3:
            (folder / f"began {ft.process_index()}").touch()
    report.write_text(f"{gethostname()} {np.asarray(divided[0]).tobytes().hex()}")
except Exception as error:
    report.write_text(f"{time.time()} {type(error).__name__}: {error}")
    raise
