"""Lists in JSON files are edited as text; everything else stays as it is."""

from __future__ import annotations

from pathlib import Path

from triage.recipes.expectations import edited_json_lists

TEXT = """{
  // what fails
  "fails": [
    "b", // known for long
    // since a week
    "d",
    "f"
  ],
  "short": ["x", "y"],
  "none": [],
  "ends": [
    "q",
    "p",
  ],
}
"""


def test_entries_are_sorted_in_and_comments_and_commas_stay() -> None:
    edited = edited_json_lists(
        Path("f.json"), TEXT, {"fails": (["f"], ["c", "a", "z"])}
    )
    assert edited == TEXT.replace(
        '    "b", // known for long\n    // since a week\n    "d",\n    "f"\n',
        '    "a",\n    "b", // known for long\n    "c",\n    // since a week\n    "d",\n    "z"\n',
    )
    edits = {
        "short": (["y"], ["a"]),
        "none": ([], ["n"]),
        "ends": (["p"], ["a"]),
        "new": ([], ["k"]),
    }
    assert edited_json_lists(Path("f.json"), TEXT, edits) == TEXT.replace(
        '["x", "y"]', '["a", "x"]'
    ).replace("[]", '["n"]').replace('"p",\n', '"a",\n').replace(
        '  "ends"', '  "new": [\n    "k"\n  ],\n  "ends"'
    )
