"""`python -m benchmarks`, and `python -m benchmarks page`."""

from __future__ import annotations

import sys

from benchmarks.options import limit_threads, parser


def main() -> int:
    if sys.argv[1:2] == ["page"]:
        from benchmarks.page import main as write_page

        return write_page(sys.argv[2:])
    options = parser().parse_args()
    limit_threads()
    # Imported only now: thread pools are as large as the machine that they find.
    from benchmarks.run import run

    return run(options)


if __name__ == "__main__":
    sys.exit(main())
