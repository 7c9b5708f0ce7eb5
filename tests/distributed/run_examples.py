"""What `test_examples.py` starts, in one process or several: programs, one by one.

python run_examples.py fsdp 10 stencil -      10 steps, and as many as it does
"""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path

EXAMPLES = Path(__file__).parents[2] / "examples"

sys.path.insert(0, str(EXAMPLES))
words = sys.argv[1:]
for name, steps in zip(words[::2], words[1::2], strict=True):
    sys.argv = [name, *([] if steps == "-" else ["--steps", steps])]
    sys.stdout.write(f"{name}: {import_module(name).main()} wrong\n")
