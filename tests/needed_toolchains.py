"""Print which released compilers the tests need and how much is still to be downloaded."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import platformdirs

CORE = {"iree-base-compiler": ("3.2.0", "3.3.0"), "triton": ("3.2.0",)}
ALL = {
    "iree-base-compiler": (
        *("2.9.0", "3.0.0", "3.1.0", "3.2.0", "3.3.0", "3.4.0", "3.5.0", "3.6.0"),
        *("3.7.0", "3.7.1", "3.8.0", "3.9.0", "3.10.0", "3.11.0", "3.12.0", "3.13.0"),
    ),
    "triton": ("3.1.0", "3.2.0", "3.9.0"),
    "jaxlib": ("0.8.0", "0.8.1", "0.10.1", "0.10.2"),
    "onnxruntime": ("1.19.2", "1.20.0", "1.20.1"),
}
# Megabytes of one wheel as downloaded, and unpacked.
SIZES = {
    "iree-base-compiler": (80, 320),
    "triton": (200, 600),
    "jaxlib": (150, 550),
    "onnxruntime": (50, 200),
}


def main() -> None:
    """Print one sentence on what is needed and, if something is missing, one on how
    much is downloaded.
    """
    needed = CORE if sys.argv[1:] == ["core"] else ALL
    cache = Path(
        os.environ.get("TRIAGE_TEST_TOOLCHAINS")
        or platformdirs.user_cache_dir("triage", appauthor=False)
    )
    names = [
        (package, version)
        for package, versions in needed.items()
        for version in versions
    ]
    missing = [
        (package, version)
        for package, version in names
        if not any(cache.glob(f"toolchains/*{package}*-{version}-*"))
    ]
    download, unpacked = (
        sum(SIZES[package][column] for package, _ in missing) for column in (0, 1)
    )
    counts = " and ".join(
        f"{len(versions)} of {package}" for package, versions in needed.items()
    )
    print(f"The tests use releases in {cache}: {counts}.")
    if missing:
        print(
            f"{len(missing)} are missing: about {download} MB will be downloaded and take {unpacked} MB of disk."
        )
        print("`pytest -m 'not real'` runs the tests that need none.")


if __name__ == "__main__":
    main()
