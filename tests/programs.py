"""Programs that tests write."""

from __future__ import annotations

from pathlib import Path


def write_program(path: Path, text: str) -> Path:
    """Write a script that can be run, in a folder that is made."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path
