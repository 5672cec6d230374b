"""Give the processes that this program starts the same address layout in every run."""

from __future__ import annotations

import ctypes
from functools import cache

_ADDR_NO_RANDOMIZE = 0x0040000


@cache
def _libc() -> ctypes.CDLL | None:
    libc = ctypes.CDLL(None, use_errno=True)
    return libc if hasattr(libc, "personality") else None


def disable_address_randomisation() -> bool:
    """Disable address randomisation for the processes that this thread starts. Returns whether the system allows it.

    A compiler that iterates over pointers in hash order can give different answers for different address layouts.
    """
    libc = _libc()
    if libc is None:
        return False
    current = libc.personality(0xFFFFFFFF)
    return bool(current != -1 and libc.personality(current | _ADDR_NO_RANDOMIZE) != -1)
