"""The flags that a pasted command line may pass, next to what released compilers say of
them.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from triage.compilers.registry import recipe_starters

NAMES = frozenset[str]().union(
    *(starter.flags_allowed_in_texts for starter in recipe_starters().values())
)
_OPTION = re.compile(
    r"^ {2,6}--?([A-Za-z][\w.+-]*)(=<[^>]*>)?\s+-\s+(.*)$", re.MULTILINE
)
_HARMFUL = re.compile(
    r"(?i)filename|file name|file path|\bpaths? to\b|director(?:y|ies)\b|\bdumps?\b|plug-?in|shell|external command|\bexe\b"
)
_READ = {  # their help uses such a word of something else
    "iree-codegen-gpu-create-fast-slow-path",  # code paths
    "iree-hal-link-executables",  # a remark on dumps
    "iree-hal-verify-devices",  # built-in plugins
    "iree-llvmcpu-enable-llvm-ukernels",  # a folder of the compiler's sources
}


@pytest.mark.real
@pytest.mark.parametrize(
    "version",
    ["2.9.0", pytest.param("3.3.0", marks=pytest.mark.core), "3.8.0", "3.13.0"],
)
def test_no_flag_that_texts_may_pass_speaks_of_files_or_programs(
    installed: Callable[[str], Path], version: str
) -> None:
    folder = installed(version) / "iree" / "compiler" / "_mlir_libs"
    known, harmful = set[str](), {}
    for tool in ("iree-compile", "iree-opt"):
        text = subprocess.run(
            [folder / tool, "--help-hidden"], capture_output=True, text=True, check=True
        ).stdout
        for match in _OPTION.finditer(text):
            name, _, described = match.groups()
            known.add(name)
            if (
                name in NAMES
                and name not in _READ
                and _HARMFUL.search(f"{name} {described}")
            ):
                harmful[name] = described
    assert harmful == {}
    assert len(known & NAMES) > 400
