"""A notebook, a page or a script of others in this process, as it is.

python -m tests.foreign.cells REQUEST.json: runs its cells and times a step of it, on
jax where there is one, else on ftrace. What is printed goes to the output; the file
takes the seconds, the steps and what each cell says. ftrace is imported only where it
is run, so that a Python that has jax alone is enough for jax.
"""

from __future__ import annotations

import ast
import contextlib
import importlib.machinery
import importlib.util
import io
import itertools
import json
import linecache
import os
import random
import re
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import numpy as np

#: Samples of the digits in the two sets.
SIZES = {"train": 1536, "test": 256}
#: Modules that get data from elsewhere, or write where nobody reads.
DATA = (
    "tensorflow_datasets", "tensorflow.io", "tensorboard.plugins.hparams", "grain",
    "torch", "torchvision.transforms", "IPython.display", "orbax.export",
)  # fmt: skip


class Data:
    """What tf.data, grain and torch are asked for, of samples in memory."""

    def __init__(self, samples: list[Any], endless: bool = False) -> None:
        self.samples, self.endless = samples, endless
        features = {"image": SimpleNamespace(shape=(28, 28, 1))}
        features["label"] = SimpleNamespace(num_classes=10)
        self.dataset_info = SimpleNamespace(features=features)

    def __len__(self) -> int:
        return len(self.samples)

    def __iter__(self) -> Iterator[Any]:
        return itertools.cycle(self.samples) if self.endless else iter(self.samples)

    def map(self, change: Callable[[Any], Any]) -> Data:
        return Data([change(sample) for sample in self.samples])

    def shuffle(self, *_: int, **__: int) -> Data:
        order = np.random.default_rng(0).permutation(len(self.samples))
        return Data([self.samples[i] for i in order])

    def repeat(self, times: int | None = None) -> Data:
        return Data(self.samples * (times or 1), endless=times is None)

    def batch(self, size: int, drop_remainder: bool = True) -> Data:
        starts = range(0, len(self.samples) - size * drop_remainder + 1, size)
        return Data([_stack(self.samples[i : i + size]) for i in starts])

    def prefetch(self, *_: int, **__: int) -> Data:
        return self

    def cardinality(self) -> np.ndarray:
        return np.asarray(len(self.samples)).view(Tensor)

    def as_numpy_iterator(self) -> Any:
        batches = iter(self)
        each = MagicMock(next=lambda: next(batches))
        each.__iter__.side_effect = lambda: batches
        return each


class Tensor(np.ndarray):
    """An array that is asked for its NumPy array."""

    def numpy(self) -> np.ndarray:
        return np.asarray(self)


def _stack(samples: list[Any]) -> Any:
    first = samples[0]
    if isinstance(first, dict):
        return {name: np.stack([s[name] for s in samples]) for name in first}
    return tuple(np.stack(part).view(Tensor) for part in zip(*samples, strict=True))


def _digits(split: str) -> tuple[np.ndarray, np.ndarray]:
    """Pictures of 32 × 32 as bytes, and what they show."""
    from sklearn.datasets import load_digits

    images, labels = load_digits(return_X_y=True)
    some = slice(SIZES["train"]) if split == "train" else slice(-SIZES["test"], None)
    large = np.kron(images[some].reshape(-1, 8, 8), np.ones((1, 4, 4)))
    return (large * (255 / 16)).astype(np.uint8), labels[some].astype(np.int64)


def mnist(*_: Any, split: Any = "train", **__: Any) -> Any:
    if isinstance(split, list):
        return [mnist(split=part) for part in split]
    images, labels = _digits(split)
    pairs = zip(images[:, 2:-2, 2:-2, None], labels, strict=True)
    return Data([{"image": image, "label": label} for image, label in pairs])


def cifar10(*_: Any, train: bool = True, **__: Any) -> Data:
    images, labels = _digits("train" if train else "test")
    pixels = np.repeat(images[:, None] / np.float32(255), 3, axis=1)
    return Data(list(zip(pixels * 4 - 2, labels, strict=True)))


def regions() -> Any:
    """A table of 50 rows with the columns of a study of divorces, of diabetes."""
    import pandas
    from sklearn.datasets import load_diabetes

    x, y = load_diabetes(return_X_y=True)
    columns = ["MedianAgeMarriage", "South", "Population", "Marriage", "WaffleHouses"]
    table = pandas.DataFrame(x[:50, :5], columns=columns)
    table["Divorce"], table["Divorce SE"] = y[:50], np.abs(x[:50, 5]) * 500 + 5
    table["Location"] = table["Loc"] = [f"L{i}" for i in range(50)]
    return table


class _StandIn(ModuleType):
    """A module that has every name: one that takes every call."""

    __path__: list[str] = []  # noqa: RUF012

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        setattr(self, name, found := MagicMock(name=name))
        return found


def stand_in(text: str) -> None:
    """The modules of `DATA` that a program speaks of."""
    tfds = {"load": mnist, "data_source": mnist, "as_numpy": lambda data: data}
    source = SimpleNamespace(source=lambda data: data)
    loader = SimpleNamespace(
        DataLoader=lambda data, batch_size, **_: data.batch(batch_size)
    )
    given: dict[str, dict[str, Any]] = {
        "tensorflow_datasets": {**tfds, "Split": SimpleNamespace(
            TRAIN="train", TEST="test"
        )},
        "tensorflow": {
            "cast": np.asarray, "float32": np.float32, "is_tensor": lambda x: False,
        },
        "grain": {"MapDataset": source},
        "torch": {"Tensor": Tensor, "utils": SimpleNamespace(data=loader)},
        "torchvision": {"datasets": SimpleNamespace(CIFAR10=cifar10)},
    }  # fmt: skip
    for name in DATA:
        if name.split(".")[0] not in text:
            continue
        parts = name.split(".")
        for n in range(1, len(parts) + 1):
            module = ".".join(parts[:n])
            if module not in sys.modules and (n == len(parts) or module != "orbax"):
                sys.modules[module] = found = _StandIn(module)
                found.__spec__ = importlib.machinery.ModuleSpec(module, None)
                found.__dict__.update(given.get(module, {}))


def cells(path: Path, text: str) -> list[str]:
    """The code of a notebook, of a page's `code-cell`s, or of a script."""
    if path.suffix == ".ipynb":
        found = [
            "".join(cell["source"])
            for cell in json.loads(text)["cells"]
            if cell["cell_type"] == "code"
        ]
    elif path.suffix == ".md":
        blocks = re.findall(
            r"^```\{code-cell\}[^\n]*\n(.*?)^```", text, re.MULTILINE | re.DOTALL
        )
        found = [
            re.sub(r"\A(---\n(.*\n)*?---\n|(:.*\n)+)", "", block) for block in blocks
        ]
    else:
        return [text]
    return [re.sub(r"^[ \t]*[!%].*", "pass", cell, flags=re.MULTILINE)
            for cell in found]  # fmt: skip


class Program:
    """Runs cells one after the other in one module, timing a function of them."""

    def __init__(self, step: str) -> None:
        self.step = step
        self.times: list[list[float]] = []
        self.raised: list[int] = []
        self.told: list[str] = []
        sys.modules["__main__"] = self.module = ModuleType("__main__")
        self.names = self.module.__dict__
        self.names.update(_timed=self._timed, regions=regions)

    @contextlib.contextmanager
    def _clock(self) -> Iterator[None]:
        """Notes seconds, and seconds of all processors."""
        begin, busy = time.perf_counter(), time.process_time()
        yield
        self.times.append([time.perf_counter() - begin, time.process_time() - busy])

    def _timed(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def step(*args: Any, **kwargs: Any) -> Any:
            import jax  # whichever it is

            with self._clock():
                found = function(*args, **kwargs)
                jax.block_until_ready((found, args))
            return found

        return step

    def run(self, number: int, cell: str, shows: bool) -> None:
        """One cell, which may raise; `shows` what it ends with, as a notebook does."""
        name = f"<cell {number}>"
        linecache.cache[name] = (len(cell), None, cell.splitlines(True), name)
        out = io.StringIO()
        np.random.seed(0)  # noqa: NPY002  (imports may have drawn)
        random.seed(0)
        try:
            with contextlib.redirect_stdout(out):
                shown = self._run(ast.parse(cell), name)
                if shows and shown is not None and not cell.rstrip().endswith(";"):
                    out.write(f"{shown!r}\n")
        except SystemExit:  # as absl's `app.run` ends
            pass
        except Exception as error:
            self.raised.append(number)
            out.write(f"{type(error).__name__}: {error}\n")
            sys.stderr.write(traceback.format_exc())
        self.told.append(out.getvalue())
        sys.stdout.write(out.getvalue())

    def _run(self, tree: ast.Module, name: str) -> Any:
        """The value of an expression at the end."""
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef) and node.name == self.step:
                timed = ast.copy_location(ast.Name("_timed", ast.Load()), node)
                node.decorator_list.insert(0, timed)
        last = tree.body[-1] if tree.body else None
        if isinstance(last, ast.Expr):
            tree.body.pop()
        # Without the imports from the future of this file.
        exec(compile(tree, name, "exec", dont_inherit=True), self.names)
        if not isinstance(last, ast.Expr):
            return None
        value = ast.Expression(last.value)
        return eval(compile(value, name, "eval", dont_inherit=True), self.names)

    def repeat(self, statement: str, times: int = 5) -> None:
        """A step is a statement, run again after its first time."""
        code = compile(statement, "<again>", "exec")
        for _ in range(times + 1):
            with self._clock():
                exec(code, self.names)


def main(request: Path) -> None:
    asked = json.loads(request.read_text())
    path = Path(asked["file"])
    sys.path[0] = str(path.parent)
    sys.path += asked["path"]
    sys.argv = [str(path), *asked["argv"]]
    os.environ["MPLBACKEND"] = "Agg"
    text = path.read_text()
    for old, new in asked["replace"]:
        if old not in text:
            sys.exit(f"{path} does not hold {old!r}")
        text = text.replace(old, new)
    if importlib.util.find_spec("jax") is None:
        from ftrace.compat import install_as_jax

        install_as_jax()
    sys.path[:] = [folder for folder in sys.path if folder != asked["without"]]
    stand_in(text)
    program = Program(asked["step"])
    for number, cell in enumerate([*cells(path, text), asked["call"]]):
        program.run(number, cell, path.suffix != ".py")
    seconds = time.time() - asked["begin"]
    if asked["again"]:
        program.times.clear()
        program.repeat(asked["again"])
    found = {"seconds": seconds, "times": program.times[1:], "raised": program.raised}
    request.write_text(json.dumps({**found, "told": program.told}))


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
