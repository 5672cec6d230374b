"""Lists in JSON files are edited as text; everything else stays as it is."""

from __future__ import annotations

import json

import pytest

from triage.config.json_lists import ListEdit, edit_lists
from triage.model.errors import BadFiles

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
    edited = edit_lists("f.json", TEXT, {"fails": ListEdit(remove=["f"], add=["c", "a", "z"])})
    assert edited == TEXT.replace(
        '    "b", // known for long\n    // since a week\n    "d",\n    "f"\n',
        '    "a",\n    "b", // known for long\n    "c",\n    // since a week\n    "d",\n    "z"\n',
    )


def test_the_last_entry_has_no_comma_where_it_had_none() -> None:
    edited = edit_lists("f.json", TEXT, {"fails": ListEdit(remove=["f", "b"])})
    assert edited == TEXT.replace('    "b", // known for long\n', "").replace('"d",\n    "f"\n', '"d"\n')


def test_an_unsorted_list_grows_at_its_end() -> None:
    edited = edit_lists("f.json", TEXT, {"ends": ListEdit(add=["a"])})
    assert edited == TEXT.replace('    "p",\n', '    "p",\n    "a",\n')


def test_lists_on_one_line_empty_lists_and_missing_lists() -> None:
    edits = {"short": ListEdit(remove=["y"], add=["w"]), "none": ListEdit(add=["n"]), "new": ListEdit(add=["m"])}
    edited = edit_lists("f.json", TEXT, edits)
    assert '"short": ["w", "x"],' in edited
    assert '"none": [\n    "n"\n  ],' in edited
    assert '"new": [\n    "m"\n  ],\n  "ends"' in edited
    assert edit_lists("f.json", '{"a": ["x"]}', {"a": ListEdit(remove=["x"])}) == '{"a": []}'


def test_windows_line_ends_stay() -> None:
    edited = edit_lists("f.json", TEXT.replace("\n", "\r\n"), {"fails": ListEdit(add=["c"])})
    assert edited.replace("\r\n", "\n") == TEXT.replace("    // since", '    "c",\n    // since')
    assert "\n" not in edited.replace("\r\n", "")


def test_nothing_to_do_changes_nothing() -> None:
    assert edit_lists("f.json", TEXT, {"fails": ListEdit(remove=["zz"], add=["b"]), "short": ListEdit()}) == TEXT


def test_comments_between_entries_of_one_line_are_refused() -> None:
    with pytest.raises(BadFiles) as caught:
        edit_lists("f.json", '{"a": ["x", /* why */ "y"]}', {"a": ListEdit(remove=["x"])})
    assert (caught.value.problems[0].line, caught.value.problems[0].column) == (1, 7)


def test_tabs_and_texts_with_slashes() -> None:
    edited = edit_lists("f.json", '{\n\t"a": [\n\t\t"http://x/y"\n\t]\n}\n', {"a": ListEdit(add=["z/*"])})
    assert edited == '{\n\t"a": [\n\t\t"http://x/y",\n\t\t"z/*"\n\t]\n}\n'
    assert json.loads(edited) == {"a": ["http://x/y", "z/*"]}
