"""Values as recipes write them, and the numbers on how two results differ."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from triage.execution.run_task import differences
from triage.recipes.run_values import identity_of, read_value, split_value, zero_of


@pytest.mark.parametrize("text", ["", "4 5", "3x4y=1", "=@", "2x3x=4", "f33=1", "@"])
def test_a_text_that_is_no_value_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        split_value(text)


@pytest.mark.parametrize(
    "dtype", ["i1", "i8", "i16", "i32", "i64", "f16", "f32", "f64"]
)
def test_raw_files_and_npy_files_hold_the_same_values(
    tmp_path: Path, dtype: str
) -> None:
    kinds = {
        "i1": "?",
        "i8": "i1",
        "i16": "<i2",
        "i32": "<i4",
        "i64": "<i8",
        "f16": "<f2",
        "f32": "<f4",
        "f64": "<f8",
    }
    array = np.arange(6).reshape(2, 3).astype(kinds[dtype])
    array.tofile(tmp_path / "a.bin")
    np.save(tmp_path / "a.npy", array)
    raw, saved = (
        read_value(f"2x3x{dtype}=@{tmp_path}/a.bin"),
        read_value(f"@{tmp_path}/a.npy"),
    )
    assert raw is not None
    assert saved is not None
    assert np.array_equal(raw, saved)


def test_a_file_that_does_not_fit_its_type_has_no_values(tmp_path: Path) -> None:
    (tmp_path / "a.bin").write_bytes(b"123")
    assert read_value(f"2xf32=@{tmp_path}/a.bin") is None
    assert read_value(f"@{tmp_path}/a.bin") is None
    assert read_value("2xf32=1 two") is None


def test_a_value_that_would_fill_the_memory_is_not_read() -> None:
    assert read_value("1000000x1000000xf32=1") is None
    assert read_value(f"{'9' * 4000}xf32=1") is None


def test_the_identity_is_the_content(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"1234")
    (tmp_path / "b").write_bytes(b"1234")
    assert identity_of(f"f32=@{tmp_path}/a") == identity_of(f"f32=@{tmp_path}/b")
    assert identity_of(f"f32=@{tmp_path}/a") != identity_of(f"i32=@{tmp_path}/b")
    (tmp_path / "b").write_bytes(b"1235")
    assert identity_of(f"f32=@{tmp_path}/a") != identity_of(f"f32=@{tmp_path}/b")


def test_differences_are_counted(tmp_path: Path) -> None:
    np.save(
        tmp_path / "want.npy",
        np.array([1.0, 2.0, 3.0, math.nan, math.inf, 0.0], dtype="f4"),
    )
    np.save(
        tmp_path / "got.npy",
        np.array([1.00005, 2.5, math.nan, math.nan, math.inf, math.inf], dtype="f4"),
    )
    got, want = f"@{tmp_path}/got.npy", f"@{tmp_path}/want.npy"
    numbers = differences(got, want, {})
    assert (
        numbers["elements"],
        numbers["mismatches"],
        numbers["nan"],
        numbers["inf"],
    ) == (6, 3, 1, 1)
    assert numbers["max_abs_error"] == 0.5
    assert numbers["max_rel_error"] == 0.25
    assert differences(got, want, {"f32": 0.6})["mismatches"] == 2
    assert differences("3xf32=1", want, {}) == {}
    assert differences("2xf32=1 inf", "2xf32=inf inf", {})["mismatches"] == 1
    assert differences(want, want, {}, (0.1, 0.1, False))["mismatches"] == 1, (
        "NaN is not NaN where the suite says so"
    )
    assert (
        differences("2xi32=100 5", "2xi32=101 5", {}, (0.1, 0.0, True))["mismatches"]
        == 0
    )


def test_arguments_of_known_size_only_are_zeros() -> None:
    types = (
        "tensor<4x8xf32>",
        "tensor<i64>",
        "f16",
        "tensor<2xbf16>",
        "tensor<?x4xf32>",
        "index",
        "!hal.buffer_view",
    )
    assert [zero_of(type_) for type_ in types] == [
        "4x8xf32",
        "i64",
        "0",
        "2xbf16",
        None,
        None,
        None,
    ]
