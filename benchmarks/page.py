"""A page of the documentation from figures that were saved.

    python -m benchmarks page FIGURES.json …      writes docs/benchmarks.md

Several files are one run in parts: a row that stands in two of them is taken from the
last. The page has the machine, the versions and the date, two pictures, and a table for
each family of rows.
"""

from __future__ import annotations

import argparse
import sys
import textwrap
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from benchmarks.against import Figures, read
from benchmarks.report import BUSY, NOTHING, duration, mean_of

DOCS = Path(__file__).parent.parent / "docs"
NOTE = "<!-- Written by python -m benchmarks page; do not edit. -->"
NAMES = {
    "jax": "JAX",
    "torch": "PyTorch",
    "inductor": "torch.compile",
    "numpy": "NumPy",
}
INTRODUCTION = (
    "ftrace beside other libraries, in turn, in one run. What is compared are the best "
    "of some rounds; a ratio is theirs over ours: **above 1 ftrace is faster**. How it "
    "is measured, and what a single time is worth, "
    "[is told beside the rows](../benchmarks/README.md)."
)
WARNING = (
    "**The machine did other work at the same time.** The libraries take turns, so "
    "that what slows one slows the others, but not even ratios hold where threads wait "
    "for each other. Read the order of magnitude here, not the digits."
)
LIMITS = (
    "The limits are measured in turn with each row, by the simplest code that reaches "
    "them: rows that move memory are held to its bandwidth, products to the peak of "
    "arithmetic. What fits into a cache can be quicker than memory is."
)
RATIOS, SHARES = "benchmarks-ratios.png", "benchmarks-limits.png"


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(prog="python -m benchmarks page")
    made.add_argument("figures", nargs="+", type=Path, help="what --save has written")
    made.add_argument("--folder", type=Path, default=DOCS, help="where the page goes")
    return made


def main(arguments: Sequence[str]) -> int:
    options = parser().parse_args(arguments)
    try:
        figures = join([read(path) for path in options.figures])
    except (OSError, ValueError) as error:
        return _refuse(str(error))
    if not any(row["rounds"].get("ftrace") for row in figures["rows"]):
        return _refuse("no row of these figures was timed")
    if find_spec("matplotlib") is None:
        return _refuse("the pictures need matplotlib: pip install 'ftrace[demo]'")
    draw(figures, options.folder)
    text = page_of(figures)
    (options.folder / "benchmarks.md").write_text(text, encoding="utf-8")
    return 0


def _refuse(message: str) -> int:
    print(f"benchmarks page: {message}", file=sys.stderr)
    return 2


def join(parts: Sequence[Figures]) -> Figures:
    """One run of several parts.

    Raises:
      ValueError: they are from different machines, or of different versions.
    """
    last = parts[-1]
    for part in parts:
        if part["machine"] != last["machine"]:
            raise ValueError(f"two machines: {part['machine']} and {last['machine']}")
    rows = {(r["family"], r["name"]): r for part in parts for r in part["rows"]}
    libraries: dict[str, str] = {}
    for part in parts:
        for name, version in part["libraries"].items():
            if libraries.setdefault(name, version) != version:
                raise ValueError(
                    f"two versions of {name}: {libraries[name]}, {version}"
                )
    order = {family: i for i, family in enumerate(dict.fromkeys(f for f, _ in rows))}
    found = [best(row) for row in rows.values()]
    found.sort(key=lambda row: order[row["family"]])
    load = max(part["load"] for part in parts)
    return {**last, "rows": found, "libraries": libraries, "load": load}


def best(row: Figures) -> Figures:
    """The row with what its best rounds say: what else a machine does only adds."""
    seconds = {name: min(found) for name, found in row["rounds"].items() if found}
    own = seconds.get("ftrace")
    if own is None:
        return {**row, "seconds": seconds, "ratio": {}, "share": None}
    ratio = {name: other / own for name, other in seconds.items() if name != "ftrace"}
    limit = next((min(v) for v in row["limits"].values() if v), None)
    amount = row["flops"] if row["bytes"] is None else row["bytes"]
    share = limit * amount / own if limit and amount else None
    return {**row, "seconds": seconds, "ratio": ratio, "share": share}


def families_of(figures: Figures) -> dict[str, list[Figures]]:
    """The rows that were timed, by family."""
    found: dict[str, list[Figures]] = {}
    for row in figures["rows"]:
        if row["rounds"].get("ftrace"):
            found.setdefault(row["family"], []).append(row)
    return found


def peers_of(figures: Figures) -> list[str]:
    return [name for name in figures["libraries"] if name != "ftrace"]


def ratios_of(rows: Sequence[Figures], peer: str) -> list[float]:
    return [row["ratio"][peer] for row in rows if row["ratio"].get(peer)]


# Text.


def page_of(figures: Figures) -> str:
    parts = [NOTE, "# Benchmarks", _prose(INTRODUCTION), *_circumstances(figures)]
    if peers_of(figures):
        parts += ["## All rows", *_summary(figures)]
    parts.append(f"![The share of the machine's limits that rows reach]({SHARES})")
    parts.append(_prose(LIMITS))
    for family, rows in families_of(figures).items():
        parts += [f"## {family.capitalize()}", _table(rows, peers_of(figures))]
    return "\n\n".join([*parts, _made(figures)]) + "\n"


def _prose(text: str) -> str:
    return textwrap.fill(text, 88, break_long_words=False, break_on_hyphens=False)


def _circumstances(figures: Figures) -> Iterator[str]:
    machine = figures["machine"]
    versions = ", ".join(
        f"{NAMES.get(name, name)} {version}"
        for name, version in figures["libraries"].items()
    )
    effort = figures.get("effort", "full")
    rows = [
        ("machine", f"{machine['processor']}, {machine['cores']} cores"),
        ("system", f"{machine['system']}, Python {machine['python']}"),
        ("libraries", versions),
        ("threads", f"{figures['threads']} for everybody"),
        ("date", figures.get("date", NOTHING)),
        (
            "effort",
            "few and short timings (`--quick`)" if effort == "quick" else effort,
        ),
    ]
    if figures["load"] > BUSY:
        rows.append(("other programs", f"load {figures['load']:.1f} when it began"))
    yield "\n".join(["| | |", "|---|---|", *[f"| {a} | {b} |" for a, b in rows]])
    if figures["load"] > BUSY:
        yield _prose(WARNING)


def _summary(figures: Figures) -> Iterator[str]:
    yield f"![Ratios of all rows, by family]({RATIOS})"
    yield "Each dot is a row; the bar is the geometric mean of its family."
    lines = [
        "| beside | rows | geometric mean | ftrace is faster in |",
        "|---|---|---|---|",
    ]
    for peer in peers_of(figures):
        ratios = ratios_of(figures["rows"], peer)
        if ratios:
            faster = sum(ratio > 1 for ratio in ratios)
            mean = f"{mean_of(ratios):.2f}×"
            name = NAMES.get(peer, peer)
            lines.append(f"| {name} | {len(ratios)} | {mean} | {faster} |")
    yield "\n".join(lines)


def _table(rows: Sequence[Figures], peers: Sequence[str]) -> str:
    peers = [peer for peer in peers if ratios_of(rows, peer)]
    names = [NAMES.get(peer, peer) for peer in peers]
    heads = ["row", "ftrace", "of limit", *[c for n in names for c in (n, "ratio")]]
    lines = [heads, ["---", *["---:"] * (len(heads) - 1)]]
    for row in rows:
        share = row["share"]
        cells = [row["name"], _time(row["seconds"]["ftrace"])]
        cells.append("" if share is None else f"{share:.0%}")
        for peer in peers:
            ratio = row["ratio"].get(peer)
            cells.append(_time(row["seconds"].get(peer)))
            text = NOTHING if ratio is None else f"{ratio:.2f}×"
            cells.append(f"**{text}**" if ratio is not None and ratio >= 1 else text)
        lines.append(cells)
    if len(rows) > 1 and peers:
        means = [f"{mean_of(ratios_of(rows, peer)):.2f}×" for peer in peers]
        lines.append(["*geometric mean*", "", "", *[c for m in means for c in ("", m)]])
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def _time(seconds: float | None) -> str:
    """Number and unit stay in one line."""
    return duration(seconds).replace(" ", "\N{NO-BREAK SPACE}")


def _made(figures: Figures) -> str:
    peers = " ".join(f"--peer {peer}" for peer in peers_of(figures))
    quick = " --quick" if figures.get("effort") == "quick" else ""
    threads = f"BENCHMARKS_THREADS={figures['threads']} "
    return (
        "## How this page is made\n\n"
        "In an environment that has the peers, and ftrace from a checkout:\n\n"
        f"```sh\n{threads}python -m benchmarks{quick} {peers} --save figures.json\n"
        "python -m benchmarks page figures.json\n```"
    )


# Pictures.


def draw(figures: Figures, folder: Path) -> None:
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    plt.style.use(DOCS / "gallery" / "gallery.mplstyle")
    families = families_of(figures)
    if peers_of(figures):
        _save(_draw_ratios(plt, families, peers_of(figures)), folder / RATIOS, plt)
    _save(_draw_shares(plt, families), folder / SHARES, plt)


def _save(figure: Any, path: Path, plt: Any) -> None:
    figure.savefig(path)
    plt.close(figure)


def _draw_ratios(plt: Any, families: Any, peers: Sequence[str]) -> Any:
    """A dot for each row and peer, on the line of its family."""
    height = 0.9 + 0.16 * len(families) * len(peers)
    figure, axes = plt.subplots(figsize=(7.6, height))
    for number, rows in enumerate(families.values()):
        for i, peer in enumerate(peers):
            ratios = ratios_of(rows, peer)
            if not ratios:
                continue
            y = number + (i - (len(peers) - 1) / 2) * 0.8 / len(peers)
            colour, label = f"C{i}", NAMES.get(peer, peer)
            named = label not in axes.get_legend_handles_labels()[1]
            axes.plot(
                ratios, [y] * len(ratios), ".", color=colour, alpha=0.6,
                label=label if named else None,
            )  # fmt: skip
            axes.plot([mean_of(ratios)], [y], "|", color=colour, ms=9, mew=2.2)
    axes.axvline(1, color="#333333", lw=0.9)
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter(lambda x, _: f"{x:g}×")
    axes.set_yticks(range(len(families)), families)
    axes.grid(axis="y", visible=False)
    axes.invert_yaxis()
    axes.set_title("Time of others over ours: right of the line ftrace is faster")
    axes.legend(loc="upper right", frameon=True)
    return figure


def _draw_shares(plt: Any, families: Any) -> Any:
    """How many rows reach which share of what the machine can do."""
    shares: dict[str, list[float]] = {"memory": [], "arithmetic": []}
    for rows in families.values():
        for row in rows:
            share = row["share"]
            if share is not None:
                kind = "arithmetic" if row["bytes"] is None else "memory"
                shares[kind].append(min(share, 1.5))
    figure, axes = plt.subplots(figsize=(7.6, 2.4))
    bins = [i / 10 for i in range(16)]
    axes.hist(list(shares.values()), bins=bins, stacked=True, label=list(shares))
    axes.xaxis.set_major_formatter(lambda x, _: f"{x:.0%}" + ("+" if x >= 1.5 else ""))
    axes.set_ylabel("rows")
    axes.set_title("Rows by the share of the machine's limit that ftrace reaches")
    axes.legend()
    return figure
