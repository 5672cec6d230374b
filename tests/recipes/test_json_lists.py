"""Lists in JSON files are edited as text; everything else stays as it is."""

from __future__ import annotations

from triage.recipes.edits import ListEdit, edit_json_lists

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
    edited = edit_json_lists("f.json", TEXT, {"fails": ListEdit(remove=["f"], add=["c", "a", "z"])})
    assert edited == TEXT.replace(
        '    "b", // known for long\n    // since a week\n    "d",\n    "f"\n',
        '    "a",\n    "b", // known for long\n    "c",\n    // since a week\n    "d",\n    "z"\n',
    )
    edits = {
        "short": ListEdit(["y"], ["a"]),
        "none": ListEdit(add=["n"]),
        "ends": ListEdit(["p"], ["a"]),
        "new": ListEdit(add=["k"]),
    }
    assert edit_json_lists("f.json", TEXT, edits) == TEXT.replace('["x", "y"]', '["a", "x"]').replace("[]", '["n"]').replace(
        '"p",\n', '"a",\n'
    ).replace('  "ends"', '  "new": [\n    "k"\n  ],\n  "ends"')
