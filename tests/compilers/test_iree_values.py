"""Tensors in the notation of `iree-run-module`, flag files, and the numbers on how two results differ."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from triage.compilers.iree.flagfile import read_flagfile
from triage.compilers.iree.values import differences, identity_of, located, read_value, split_value
from triage.model.errors import BadFiles


@pytest.mark.parametrize(
    ("text", "kind", "file", "element"),
    [
        ("2x3xf32=1 2 3 4 5 6", "2x3xf32", None, "f32"),
        ("f32=@a b.bin", "f32", "a b.bin", "f32"),
        ("@x.npy", "", "x.npy", ""),
        ("4xbf16", "4xbf16", None, "bf16"),
        ("i1=1", "i1", None, "i1"),
        ("4", "", None, ""),
        ("-1.5e-3", "", None, ""),
    ],
)
def test_a_value_is_split(text: str, kind: str, file: str | None, element: str) -> None:
    value = split_value(text)
    assert (value.type, value.file, value.element) == (kind, file, element)
    assert str(value) == text


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


def test_bf16_is_the_upper_half_of_f32(tmp_path: Path) -> None:
    np.array([0x3F80, 0xC000, 0x7F80], dtype="<u2").tofile(tmp_path / "a.bin")
    array = read_value(f"3xbf16=@{tmp_path}/a.bin")
    assert array is not None
    assert array.tolist() == [1.0, -2.0, math.inf]


@pytest.mark.parametrize(("text", "expected"), [("5", 5), ("-2", -2), ("1.5", 1.5), ("1e-3", 0.001)])
def test_a_number_is_no_tensor(text: str, expected: float) -> None:
    array = read_value(text)
    assert array is not None
    assert array.shape == ()
    assert array.item() == expected


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


def test_integers_must_be_equal() -> None:
    want = np.array([1, 2, 3], dtype="i8")
    assert differences(np.array([1, 2, 4], dtype="i8"), want, "i64", {})["mismatches"] == 1
    assert differences(want, want, "i64", {})["mismatches"] == 0


def test_a_flag_file_is_read(tmp_path: Path) -> None:
    (tmp_path / "in.bin").write_bytes(b"1234")
    (tmp_path / "flags.txt").write_text("# values\n--input=f32=@in.bin\n--function=main\n--expected_output=f32=2\n--trace\n")
    spec = read_flagfile(tmp_path / "flags.txt")
    assert spec.inputs == (f"f32=@{tmp_path}/in.bin",)
    assert spec.expected == ("f32=2",)
    assert (spec.function, spec.flags) == ("main", ("--trace",))


def test_every_mistake_of_a_flag_file_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "flags.txt"
    path.write_text("--input=f32=@gone.bin\nhello\n--expected_output=3x4y=1\n")
    with pytest.raises(BadFiles) as caught:
        read_flagfile(path)
    assert [(problem.line, problem.column) for problem in caught.value.problems] == [(1, 9), (2, 1), (3, 19)]


def test_a_located_value_names_an_absolute_file(tmp_path: Path) -> None:
    (tmp_path / "in.bin").write_bytes(b"")
    assert located("f32=@in.bin", tmp_path) == f"f32=@{tmp_path}/in.bin"
    assert located("f32=1", tmp_path) == "f32=1"
