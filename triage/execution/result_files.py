"""The results of a reference on disk: a folder of files beside their checksums."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from triage.model.content import file_sha256

_CHECKSUMS = "sha256.txt"


def keep_results(files: Sequence[Path], target: Path) -> None:
    """Move the files of a reference's results to their folder, which is replaced in one step."""
    if not files:
        return
    draft = files[0].parent / "results"
    draft.mkdir()
    for file in files:
        file.rename(draft / file.name)
    (draft / _CHECKSUMS).write_text("".join(f"{file_sha256(draft / file.name)} {file.name}\n" for file in files))
    target.parent.mkdir(parents=True, exist_ok=True)
    with suppress(OSError):  # another thread or process was faster
        if intact_results(target) is None:
            target.rename(files[0].parent / "damaged")
    with suppress(OSError):
        draft.rename(target)


def intact_results(folder: Path) -> list[Path] | None:
    """Return the files of a reference's results in order; None when they are missing or damaged."""
    try:
        lines = [line.split(" ", 1) for line in (folder / _CHECKSUMS).read_text("utf-8").splitlines()]
        is_intact = all(file_sha256(folder / name) == digest for digest, name in lines)
    except (OSError, ValueError):
        return None
    return [folder / name for _, name in lines] if lines and is_intact else None
