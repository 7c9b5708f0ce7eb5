"""Everything that goes wrong, at once, for a long time.

    python -m tests.soak --minutes 60

One process runs random programs in threads, while exceptions arrive anywhere, Ctrl-C
comes, it forks, other processes share its disk cache and are killed, and the files of
that cache are damaged. Nothing may differ or hang, and memory must stay flat.

- `work`: what the threads do, and what it must give.
- `trouble`: what disturbs them.
- `watch`: memory, and whether everybody still works.
"""
