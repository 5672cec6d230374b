"""One release's output made readable for another: respelled as the reader's own output of the same phase is.

The target's description is the reader's own, as keys come and go in it and names that stay mean something else; operations that
moved to another dialect stand where the reader has them. Nothing else is touched, so that what was done stays as it is.
"""

from __future__ import annotations

import re

_TARGET = re.compile(r'"[\w-]+", "[\w-]+", (?=\{)')
_MOVED = r"(?:flow|iree_tensor_ext)(?=\.dispatch\.(?:tensor|workload\.ordinal|workgroup_count_from_\w+)\b)"
_COUNTED = r"(workgroup_count_from_slice)(?:\(\))?(?= *$)"


def respelled(text: str, own: str) -> str:
    """text: what the other compiler wrote after a phase; own: what the reader did."""
    description = next((own[found.end() : _end(own, found.end())] for found in _TARGET.finditer(own)), None)
    if description:
        text = _described(text, description)
    if "iree_tensor_ext.dispatch." in own:
        text = re.sub(_MOVED, "iree_tensor_ext", text)
    elif "flow.dispatch.tensor" in own:
        text = re.sub(_MOVED, "flow", text)
    brackets = "()" if "workgroup_count_from_slice()" in own else ""
    if "workgroup_count_from_slice" in own:
        text = re.sub(_COUNTED, rf"\1{brackets}", text, flags=re.MULTILINE)
    return text


def _described(text: str, description: str) -> str:
    pieces, at = [], 0
    for found in _TARGET.finditer(text):
        if found.end() >= at:
            pieces += [text[at : found.end()], description]
            at = _end(text, found.end())
    return "".join([*pieces, text[at:]])


def _end(text: str, start: int) -> int:
    """Behind the bracket that closes the one at `start`."""
    depth = 0
    for at in range(start, len(text)):
        depth += (text[at] in "{") - (text[at] in "}")
        if depth == 0:
            return at + 1
    return len(text)
