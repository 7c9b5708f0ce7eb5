"""Examples of the libraries' own galleries, on ftrace and beside JAX.

python -m tests.foreign examples --checkouts FOLDER [--against PYTHON] [WORD …]

A row is a file in one of the checkouts, run as it is but for numbers (epochs, steps)
and where data come from. A file that is no row is run to compare what its cells say.
"""

from __future__ import annotations

import difflib
import json
import math
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

_NUMBER = r"(-?\d+\.?\d*(?:e[-+]\d+)?)"


class Example(NamedTuple):
    """A program of others.

    Attributes:
      file: Below the checkouts.
      step: The function of it whose calls are timed.
      replace: Pairs of a text and what is written in its place.
      call: Statements at its end: the call that a script leaves to its user, and what
        is compared.
      again: A statement whose runs after the end are timed in place of `step`.
      per: How many steps one call makes.
      results: An expression for the numbers in the output that are compared.
      argv: The arguments of a script.
      path: Folders below the checkouts that it imports from.
    """

    file: str
    step: str = ""
    replace: tuple[tuple[str, str], ...] = ()
    call: str = ""
    again: str = ""
    per: int = 1
    results: str = rf"result {_NUMBER}"
    argv: tuple[str, ...] = ()
    path: tuple[str, ...] = ()


_HMC = """
draw = jax.jit(lambda key: inference_loop(key, hmc_kernel, start, 10_000).position)
start = hmc.init(initial_position)
for values in (states.position["loc"], states.position["log_scale"]):
    print("result", values.mean(), "result", values.std())
"""
_SPARSE = """
X, _, _ = datasets.make_sparse_coded_signal(
    n_samples=74, n_components=7, n_features=13, n_nonzero_coefs=3, random_state=0)
learn = jax.jit(
    make_task_driven_dictionary_learner(
        maxiter=10, sparse_coding_kw={"maxiter": 100}), static_argnums=(1,))
"""

EXAMPLES = (
    Example(
        "optax/examples/adversarial_training.ipynb", "train_step",
        replace=(("EPOCHS = 10", "EPOCHS = 2"),),
        results=rf"ccuracy on .* set: {_NUMBER}",
    ),
    Example(
        "equinox/docs/examples/train_rnn.ipynb", "make_step",
        # optax 0.2.8 refuses the number among what is a parameter, with JAX, too.
        replace=((
            "optim.init(model)", "optim.init(eqx.filter(model, eqx.is_array))",
        ),),
        results=rf"loss={_NUMBER}",
    ),
    Example(
        "equinox/docs/examples/vision_transformer.ipynb", "step_model",
        replace=(
            ("num_steps = 100000", "num_steps = 5"),
            ("print_every: int = 1000", "print_every: int = 1"),
        ),
        results=rf"Loss: {_NUMBER}",
    ),
    Example(
        "flax/docs/quick_start.ipynb", "train_step",
        replace=(("num_epochs = 10", "num_epochs = 2"),),
        results=rf"loss: {_NUMBER}",
    ),
    Example(
        "flax/examples/mnist/train.py", "train_step",
        call="from configs import default\nlogging.set_verbosity(logging.INFO)\n"
        "config = default.get_config()\nconfig.num_epochs = 2\n"
        "train_and_evaluate(config, '.')",
        results=rf"_loss: {_NUMBER}",
    ),
    Example(
        "numpyro/notebooks/source/bayesian_regression.ipynb",
        replace=(
            (r'pd.read_csv(DATASET_URL, sep=\";\")', "regions()"),
            (r'startswith(\"0.21.0\")', r'startswith(\"0.\")'),
        ),
        results=rf"predictive density: {_NUMBER}",
        again="mcmc.run(rng_key_, marriage=dset.MarriageScaled.values, "
        "divorce=dset.DivorceScaled.values)\njax.block_until_ready(mcmc.get_samples())",
        per=3000, call="import jax",
    ),
    Example(
        "bj/blackjax-1.7.1/docs/examples/quickstart.md", call=_HMC,
        again="jax.block_until_ready(draw(sample_key))", per=10_000,
    ),
    Example(
        "diffrax/docs/examples/neural_ode.ipynb", "make_step",
        replace=(
            ("steps_strategy=(500, 500)", "steps_strategy=(100, 100)"),
            ("print_every=100", "print_every=20"),
        ),
        results=rf"Loss: {_NUMBER}",
    ),
    Example(
        "haiku/examples/transformer/train.py", "update",
        replace=(("MAX_STEPS = 10**6", "MAX_STEPS = 100"),),
        argv=("--dataset_path={checkouts}/haiku/LICENSE", "--verbosity=0"),
        path=("haiku",),
        results=rf"'loss': {_NUMBER}",
    ),
    Example(
        "jaxopt/examples/implicit_diff/sparse_coding.py",
        # What JAX 0.10 refuses, and what scikit-learn 1.3 has turned.
        replace=(
            ("static_argnums=(1, 8)", "static_argnums=(1,)"), ("X = X.T #", "#"),
            ("codes_0[0:3, :]", "codes_0.T[0:3, :]"),
        ),
        call=_SPARSE, per=10,
        again="jax.block_until_ready(learn(.1 * X, n_components=7, "
        "regularization=.01, elastic_penalty=.01))",
        results=rf"loss \(\[?{_NUMBER}\]?\).*task \(\[?{_NUMBER}",
    ),
    Example(
        "distrax-repo/examples/flow.py", "update",
        argv=("--training_steps=7", "--eval_frequency=2", "--verbosity=0"),
        results=rf"Validation loss: {_NUMBER}",
    ),
    Example(
        "lineax/docs/examples/least_squares.ipynb", "solve_lineax",
        call="for v in solution_lineax[:9]: print('result', v)",
    ),
)  # fmt: skip


def rows(words: list[str], checkouts: Path) -> list[Example]:
    """The examples whose file holds one of the words, and files that are none."""
    files = [word for word in words if (checkouts / word).is_file()]
    others = [word for word in words if word not in files]
    known = [e for e in EXAMPLES if not words or any(w in e.file for w in others)]
    by_file = {e.file: e for e in EXAMPLES}
    return [*known, *(by_file.get(file, Example(file)) for file in files)]


def run(python: str, example: Example, checkouts: Path, folder: Path) -> dict[str, Any]:
    """Runs an example in a process of its own."""
    root = Path(__file__).resolve().parents[2]
    request = folder / "request.json"
    asked = {
        **example._asdict(),
        "file": str(checkouts / example.file),
        "argv": [word.format(checkouts=checkouts) for word in example.argv],
        "path": [str(checkouts / path) for path in example.path],
        "without": str(root),
        "begin": time.time(),
    }
    request.write_text(json.dumps(asked))
    done = subprocess.run(
        [python, "-m", "tests.foreign.cells", str(request)],
        cwd=folder, env={**os.environ, "PYTHONPATH": str(root)},
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
    )  # fmt: skip
    found = json.loads(request.read_text())
    if done.returncode or "seconds" not in found:
        raise RuntimeError(f"{example.file}: {done.stdout}")
    found["output"] = done.stdout
    matches = re.finditer(example.results, done.stdout)
    found["results"] = [float(n) for match in matches for n in match.groups()]
    columns = list(zip(*found["times"], strict=True)) or [(math.nan,)] * 2
    found["ms"] = [1000 * statistics.median(c) / example.per for c in columns]
    return found


def differ(found: list[float], expected: list[float]) -> str:
    """How far results are from those expected."""
    if len(found) != len(expected) or not found:
        return f"{len(found)} numbers, {len(expected)} with JAX"
    off = [abs(a - b) / max(abs(b), 1e-3) for a, b in zip(found, expected, strict=True)]
    worst = max(off)
    return f"{len(found)} numbers, " + (f"to {worst:.0e}" if worst else "the same")


def compare(found: list[str], expected: list[str]) -> list[str]:
    """The cells that say other things than with JAX, beyond rounding."""
    lines: list[str] = []
    for n, (a, b) in enumerate(zip(found, expected, strict=True)):
        here, there = (re.sub(r"0x[0-9a-f]+", "0x…", text) for text in (a, b))
        texts = [" ".join(re.sub(_NUMBER, "#", text).split()) for text in (here, there)]
        off = [0.0]
        if texts[0] == texts[1]:
            ours, theirs = (map(float, re.findall(_NUMBER, t)) for t in (here, there))
            off += [
                abs(x - y) / max(abs(y), 1e-3)
                for x, y in zip(ours, theirs, strict=True)
            ]
        if texts[0] != texts[1] or max(off) > 1e-4:
            parts = difflib.unified_diff(
                there.splitlines(), here.splitlines(), "JAX", "ftrace", n=0, lineterm=""
            )
            lines += [f"cell {n}:", *list(parts)[2:]]
    return lines


def main(arguments: list[str]) -> int:
    """Prints a row for each example, and with `--cells` what cells say."""
    import argparse

    parser = argparse.ArgumentParser(prog="python -m tests.foreign examples")
    parser.add_argument("--checkouts", type=Path, required=True, help="their folder")
    parser.add_argument("--against", help="a Python with jax, which runs them in turn")
    parser.add_argument("--rounds", type=int, default=1, help="medians of so many")
    parser.add_argument("--cells", action="store_true", help="what cells print")
    parser.add_argument("words", nargs="*", help="parts of names, or other files")
    asked = parser.parse_args(arguments)
    pythons = [sys.executable, *([asked.against] if asked.against else [])]
    checkouts = asked.checkouts.resolve()
    heads = ["ms per step", "with JAX", "ms of processors", "with JAX", "s in all"]
    _say(f"| example | {' | '.join(heads)} | with JAX | results |")
    _say("|---|---|---|---|---|---|---|---|")
    for example in rows(asked.words, checkouts):
        with tempfile.TemporaryDirectory() as folder:
            got = [
                [run(p, example, checkouts, Path(folder)) for p in pythons]
                for _ in range(asked.rounds)
            ]
        _say(_row(example, got))
        if asked.cells:
            here, there = got[-1][0], got[-1][-1]
            _say(here["output"] if here is there else "")
            _say("\n".join(compare(here["told"], there["told"])))
    return 0


def _row(example: Example, rounds: list[list[dict[str, Any]]]) -> str:
    sides = list(zip(*rounds, strict=True))
    shown: list[str] = []
    for number in range(2):
        for side in sides:
            ms = statistics.median(run["ms"][number] for run in side)
            shown.append("" if math.isnan(ms) else f"{ms:.3g}")
    shown += [f"{statistics.median(r['seconds'] for r in side):.1f}" for side in sides]
    here, there = rounds[-1][0], rounds[-1][-1]
    said = differ(here["results"], there["results"])
    if here["raised"] or there["raised"]:
        said += f"; cells {here['raised']} raise, with JAX {there['raised']}"
    if here is there:  # nothing is compared: every other column is empty
        shown = [text for one in shown for text in (one, "")]
        said = f"{here['results'][:6]}; cells {here['raised']} raise"
    return f"| {' | '.join([example.file, *shown, said])} |"


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()
