"""Operations whose formula a user has given: `extend.elementwise`.

Nothing that is computed by such a formula is kept on disk: another process may have
another function of that name.
"""

from __future__ import annotations

from typing import Final

#: Their names, of this process.
OF_USERS: Final[set[str]] = set()
