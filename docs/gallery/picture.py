"""Pictures of the gallery: one look, and one way into a file.

A page imports `save` before it draws, and so has the style of `gallery.mplstyle`.
"""

from __future__ import annotations

import io
import logging
from pathlib import Path

import matplotlib as mpl
from matplotlib import pyplot as plt
from matplotlib.figure import Figure
from PIL import Image

HERE = Path(__file__).parent
#: The checkout, for the data of `examples`.
ROOT = HERE.parent.parent
COLOURS = 256

# A first import searches for fonts, and says so in the output of a page.
logging.getLogger("matplotlib").setLevel(logging.ERROR)
mpl.use("Agg")
plt.style.use(HERE / "gallery.mplstyle")


def save(figure: Figure, name: str) -> None:
    """Writes a figure as `name`.png into the current folder, in few colours."""
    drawn = io.BytesIO()
    figure.savefig(drawn, format="png")
    with Image.open(drawn) as image:
        few = image.convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE)
        few.save(f"{name}.png", optimize=True)
    plt.close(figure)
