"""Facts about the chips that Triton compiles for."""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Chip:
    """What a compile for a chip needs to know."""

    arch: str
    warp_size: int
    shared_limit: int | None
    """Bytes of shared memory (LDS) that one block may ask for, if known."""


# What a block may opt in to, bytes.
_CUDA_SHARED = {
    **dict.fromkeys((70, 72), 98304),
    75: 65536,
    **dict.fromkeys((80, 87), 166912),
    **dict.fromkeys((86, 89, 120, 121), 101376),
    **dict.fromkeys((90, 100, 101, 103), 232448),
}
_WAVE_32 = re.compile(r"gfx1[0-2]\d\d")
_HIP = re.compile(r"gfx[0-9a-f]{3,4}")


def chip_of(backend: str, name: str) -> Chip | None:
    """Describe a chip, such as `sm_90` of cuda or `gfx942` of hip; None for another name."""
    if backend == "cuda":
        match = re.fullmatch(r"(?:sm_?)?(\d{2,3})a?", name)
        return Chip(match[1], 32, _CUDA_SHARED.get(int(match[1]))) if match else None
    if not _HIP.fullmatch(name):
        return None
    return Chip(name, 32 if _WAVE_32.fullmatch(name) else 64, 163840 if name == "gfx950" else 65536)
