"""Loops that end when a predicate says so, beside those that count."""

from __future__ import annotations

from collections.abc import Sequence

from ftrace.devices.llvm.ir.writer import OpenLoop, Writer


class LoopWriter(Writer):
    """A writer that also knows loops that end when a predicate says so."""

    def close_while(
        self, loop: OpenLoop, first: str, again: str, updated: Sequence[str]
    ) -> list[str]:
        """The values that a loop hands on, after its last iteration.

        Args:
          loop: from `open_loop`, whose index is not used.
          first: is there a first iteration?
          again: is there another one?
          updated: what it hands on to the next iteration.
        """
        level = self._pop()
        outer = self.stack[-1]
        entered, header, done = outer.label, level.first, f"done{loop.index[2:]}"
        lines = outer.lines
        lines.append(f"  br i1 {first}, label %{header}, label %{done}")
        lines.append(f"{header}:")
        edges = list(zip(loop.carried, updated, strict=True))
        for (kind, initial, name), value in edges:
            places = f"[{initial}, %{entered}], [{value}, %{level.label}]"
            lines.append(f"  {name} = phi {kind} {places}")
        lines.extend(level.lines)
        lines.append(f"  br i1 {again}, label %{header}, label %{done}")
        lines.append(f"{done}:")
        results: list[str] = []
        for (kind, initial, name), value in edges:
            places = f"[{initial}, %{entered}], [{value}, %{level.label}]"
            lines.append(f"  {name}.end = phi {kind} {places}")
            self.depth_of[f"{name}.end"] = outer.depth
            results.append(f"{name}.end")
        outer.label = done
        return results
