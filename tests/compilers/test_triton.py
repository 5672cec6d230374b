"""The Triton adapter's translations, without a Triton."""

from __future__ import annotations

from pathlib import Path

from triage.compilers.kernel import KernelSpec
from triage.compilers.triton.adapter import Triton
from triage.model.case import Case, Input, InputKind, Target
from triage.model.outcome import Cause, NoAnswer
from triage.model.revision import Revision, Toolchain
from triage.processes.sealing import Seal

CASE = Case(
    "r",
    "r",
    "",
    "triton",
    Path("r.yaml"),
    Input(Path("k.py"), InputKind.OTHER),
    Target("cuda", "sm_90"),
    spec=KernelSpec(None, {"x": "*fp16"}, {}, {"x": {"divisibility": 16}}, {}),
)


def unpacked(root: Path, python: str) -> Toolchain:
    """A wheel with the parts that the adapter looks at."""
    for name in ("_C/libtriton.so", "__init__.py", "compiler/compiler.py"):
        (root / "triton" / name).parent.mkdir(parents=True, exist_ok=True)
        (root / "triton" / name).write_text("__version__ = '3.2.0'\n")
    metadata = root / "triton-3.2.0+git0123456789.dist-info"
    metadata.mkdir()
    (metadata / "WHEEL").write_text(f"Wheel-Version: 1.0\nTag: {python}-any\n")
    triton = Triton()
    program = triton.locate(root)
    assert program
    known = triton.describe(program, Seal(()))
    assert (known.version, known.commit) == ("3.2.0+git0123456789", "0123456789")
    revision = Revision("nightly")
    return Toolchain("triton", revision, "id", root, program, known.capabilities)


def test_a_wheel_for_a_python_that_is_not_here_is_untestable(tmp_path: Path) -> None:
    reason = "nightly needs Python 3.99, and none is installed here"
    answer = Triton().invocation(CASE, unpacked(tmp_path, "cp399-cp399"))
    assert answer == NoAnswer(Cause.TOOLCHAIN, reason)
