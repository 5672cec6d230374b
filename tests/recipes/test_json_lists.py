"""Lists of a JSON file are written anew; everything else stays as it is."""

from __future__ import annotations

from triage.recipes.expectations import with_json_lists

TEXT = """{
  // what is skipped
  "skips": ["x", /* slow */ "y"],
  "fails": [
    "b", // known for long
    "d",
  ],
  "none": [],
}
"""


def test_lists_are_replaced_and_the_rest_stays() -> None:
    lists = {"fails": ["a", "b"], "none": ["q"], "new": ["k"]}
    assert (
        with_json_lists(TEXT, lists)
        == """{
  "new": [
    "k"
  ],
  // what is skipped
  "skips": ["x", /* slow */ "y"],
  "fails": [
    "a",
    "b"
  ],
  "none": [
    "q"
  ],
}
"""
    )
