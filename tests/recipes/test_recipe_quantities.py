"""Durations and sizes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from triage.config.values import UNITS, parse_duration, parse_size


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("120s", 120), ("2m", 120), ("1h30m", 5400), ("90", 90), ("0.5", 0.5), ("1.5h", 5400), ("1h0m5s", 3605)],
)
def test_durations(text, seconds):
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "s", "1d", "5 s", "30m1h", "1e3", "inf", "nan", "-1", "٣s", "100ms", "0"])
def test_what_is_no_duration(text):
    with pytest.raises(ValueError, match="write"):
        parse_duration(text)


@given(st.integers(0, 100), st.integers(0, 59), st.integers(1, 59))
def test_parts_of_a_duration_add_up(hours, minutes, seconds):
    assert parse_duration(f"{hours}h{minutes}m{seconds}s") == hours * 3600 + minutes * 60 + seconds


@pytest.mark.parametrize(
    ("text", "size"),
    [("8GiB", 8 << 30), ("512MiB", 512 << 20), ("2GB", 2 * 10**9), ("1.5 GiB", 3 << 29), ("2048KiB", 2 << 20)],
)
def test_sizes(text, size):
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "GiB", "8", "8G", "8gb", "-8GiB", "8GiB8", "1e9B", "1B", "99999999TiB"])
def test_what_is_no_size(text):
    with pytest.raises(ValueError, match="write"):
        parse_size(text)


@given(st.integers(2, 900), st.sampled_from([unit for unit, size in UNITS.items() if size >= 1 << 20]))
def test_a_size_is_its_number_of_units(number, unit):
    assert parse_size(f"{number}{unit}") == number * UNITS[unit]
