"""The content of files."""

from __future__ import annotations

import os
from hashlib import file_digest, sha256
from pathlib import Path

# bytes; `file_digest` fills a buffer of that size, which costs more than reading a
# small file
_SMALL = 1 << 18


def file_sha256(path: Path | str) -> str:
    """Return the SHA-256 of a file as text. OSError when it cannot be read."""
    with Path(path).open("rb", buffering=0) as source:
        if os.fstat(source.fileno()).st_size < _SMALL:
            return sha256(source.readall()).hexdigest()
        return file_digest(source, "sha256").hexdigest()
