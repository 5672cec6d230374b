"""A reproducer of a kernel repeats its failure with every release, without a GPU."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.compilers.contract import Contract
from tests.compilers.test_contract import SAMPLES

RELEASES = (
    *("3.0.0", "3.1.0", "3.3.0", "3.4.0", "3.5.0", "3.6.0", "3.7.0", "3.8.0", "3.9.0"),
)


@pytest.mark.real
@pytest.mark.slow
@pytest.mark.parametrize("version", RELEASES)
def test_the_script_of_a_kernel_repeats_its_failure(
    shared_home: Path, version: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    sample = replace(SAMPLES["triton"], rev=version)
    Contract(sample, tmp_path).compiles_and_repeats_its_failure()
