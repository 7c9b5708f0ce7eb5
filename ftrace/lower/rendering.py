"""What devices decide about the code of a kernel: names for `config.disabled_rules`."""

from __future__ import annotations

DECISIONS = {
    "vectors_abreast": "the steps of a long chain are done for several vectors in turn",
}
