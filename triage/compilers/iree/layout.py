"""Find an IREE compiler below a folder."""

from __future__ import annotations

from pathlib import Path

# The wheel's entry script in bin/ starts an interpreter first and turns a signal into an ordinary exit status, so the
# native binary inside the package is preferred wherever both are there.
_INNER = "iree/compiler/_mlir_libs/iree-compile"
_PLACES = (
    _INNER,
    f"lib/python3*/site-packages/{_INNER}",
    "tools/iree-compile",
    "install/bin/iree-compile",
    "bin/iree-compile",
    "iree-compile",
)
_LIBRARIES = (
    "libIREECompiler.so",
    "../lib/libIREECompiler.so",
    "libIREECompiler.dylib",
    "../lib/libIREECompiler.dylib",
)


def locate(root: Path) -> Path | None:
    """The native `iree-compile` of a wheel's root, a virtual environment, a build or install tree, or the binary itself."""
    if root.is_file():
        return _behind_script(root) if _is_script(root) else root.absolute()
    for pattern in _PLACES:
        for found in sorted(root.glob(pattern)):
            if found.is_file():
                return _behind_script(found) if _is_script(found) else found.absolute()
    return None


def identity_files(program: Path) -> tuple[Path, ...]:
    """The binary and the shared library beside it that holds the compiler; a static binary alone."""
    libraries = [program.parent / name for name in _LIBRARIES]
    return (program, *(path.resolve() for path in libraries if path.is_file()))


def python_root(program: Path) -> Path:
    """The folder to import `iree.compiler` from: above the package in a wheel, bindings/python in a build tree."""
    if program.parent.name == "_mlir_libs":
        return program.parents[3]
    return program.parents[1] / "compiler" / "bindings" / "python"


def _is_script(path: Path) -> bool:
    with path.open("rb") as source:
        return source.read(2) == b"#!"


def _behind_script(script: Path) -> Path | None:
    """The native binary that a virtual environment's entry script would start."""
    found = sorted(script.absolute().parent.parent.glob(f"lib/python3*/site-packages/{_INNER}"))
    beside = script.absolute().parent.parent / _INNER  # an install made with --target
    return found[-1] if found else beside if beside.is_file() else None
