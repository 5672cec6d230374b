"""Tensors in the notation of `iree-run-module`, flag files, and the numbers on how two results differ."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from triage.compilers.iree.values import differences, identity_of, read_value, split_value


@pytest.mark.parametrize("text", ["", "4 5", "3x4y=1", "=@", "2x3x=4", "f33=1", "@"])
def test_a_text_that_is_no_value_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        split_value(text)


@pytest.mark.parametrize("dtype", ["i1", "i8", "i16", "i32", "i64", "f16", "f32", "f64"])
def test_raw_files_and_npy_files_hold_the_same_values(tmp_path: Path, dtype: str) -> None:
    kinds = {"i1": "?", "i8": "i1", "i16": "<i2", "i32": "<i4", "i64": "<i8", "f16": "<f2", "f32": "<f4", "f64": "<f8"}
    array = np.arange(6).reshape(2, 3).astype(kinds[dtype])
    array.tofile(tmp_path / "a.bin")
    np.save(tmp_path / "a.npy", array)
    raw, saved = read_value(f"2x3x{dtype}=@{tmp_path}/a.bin"), read_value(f"@{tmp_path}/a.npy")
    assert raw is not None
    assert saved is not None
    assert np.array_equal(raw, saved)


def test_a_file_that_does_not_fit_its_type_has_no_values(tmp_path: Path) -> None:
    (tmp_path / "a.bin").write_bytes(b"123")
    assert read_value(f"2xf32=@{tmp_path}/a.bin") is None
    assert read_value(f"@{tmp_path}/a.bin") is None
    assert read_value("2xf32=1 two") is None


def test_the_identity_is_the_content(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"1234")
    (tmp_path / "b").write_bytes(b"1234")
    assert identity_of(f"f32=@{tmp_path}/a") == identity_of(f"f32=@{tmp_path}/b")
    assert identity_of(f"f32=@{tmp_path}/a") != identity_of(f"i32=@{tmp_path}/b")
    (tmp_path / "b").write_bytes(b"1235")
    assert identity_of(f"f32=@{tmp_path}/a") != identity_of(f"f32=@{tmp_path}/b")


def test_differences_are_counted() -> None:
    want = np.array([1.0, 2.0, 3.0, math.nan, math.inf, 0.0], dtype="f4")
    got = np.array([1.00005, 2.5, math.nan, math.nan, math.inf, math.inf], dtype="f4")
    numbers = differences(got, want, "f32", {})
    assert (numbers["elements"], numbers["mismatches"], numbers["nan"], numbers["inf"]) == (6, 3, 1, 1)
    assert numbers["max_abs_error"] == 0.5
    assert numbers["max_rel_error"] == 0.25
    assert differences(got, want, "f32", {"f32": 0.6})["mismatches"] == 2
    assert differences(got[:3], want, "f32", {}) == {}
