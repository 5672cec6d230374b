"""The part of a message that stays the same from run to run and from release to release."""

from __future__ import annotations

import re
from functools import lru_cache

LENGTH = 160
"""Characters of normalised text that enter a signature."""

_PRINTED_OPERATION = re.compile(r': (?:%[\w#:]+ = )?"[a-z_][\w.]*"\(.*')  # appended to some messages from 3.13 on
_QUOTED_LOCATION = re.compile(r"""loc\((?:[^()]|\([^()]*\))*\)|["']?[\w./\\<>+-]+\.\w+["']?:\d+(?::\d+)?""")
_PATH = re.compile(r"""(?<![\w.])(?:[A-Za-z]:[\\/]|~?/|\.{1,2}/)[^\s'"`,;()<>]*""")
_DISPATCH = re.compile(r"@?[\w$.-]*(?:\$async|dispatch_\d+|_dispatch)[\w$.-]*")
_SYMBOL = re.compile(r"@(?:\"[^\"]*\"|[\w$.-]+)(?:::@(?:\"[^\"]*\"|[\w$.-]+))*")
_VALUE = re.compile(r"%[\w$.-]+(?:#\d+)?(?::\d+)?")
_ANGLES = re.compile(r"(?<=[\w\])>!])<[^<>]*>")
_LOOSE_ANGLES = re.compile(r"(?<=[\w])<[^<>]*\Z")  # cut off before its end
_ARROW = "\x00"
_SHAPE = re.compile(r"\b(?:\d+|\?)(?:x(?:\d+|\?))*x(?=[a-z!])|(?:\b\d+|\?)(?:x(?:\d+|\?))+\b")
_OPERATION = re.compile(r"\A'[\w.]+' op ")  # a capture of its own, where it matters
_HEX = re.compile(r"\b0x[0-9a-fA-F]+\b")
_NUMBER = re.compile(r"(?<![\w.])#?[-+]?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?(?![\w])")
_NODE = re.compile(r"\bt\d+\b")  # a node of instruction selection
_LIST = re.compile(r"#(?:\s*,\s*#)+")
_SPACE = re.compile(r"\s+")


@lru_cache(maxsize=4096)
def normalised(message: str) -> str:
    """`message` without SSA names, numbers, shapes, addresses, paths, locations, symbols and type parameters.

    Element types and operation names stay: a failure on f8 or on another operation is another failure.
    """
    text = _OPERATION.sub("", _PRINTED_OPERATION.sub("", message))
    text = _QUOTED_LOCATION.sub("<loc>", text)
    text = _PATH.sub("<path>", text)
    text = _HEX.sub("#", text)
    text = text.replace("->", _ARROW)
    for _ in range(12):  # innermost brackets first
        text, replaced = _ANGLES.subn("", text)
        if not replaced:
            break
    text = _LOOSE_ANGLES.sub("", text).replace(_ARROW, "->")
    text = _DISPATCH.sub("<function>", text)
    text = _SYMBOL.sub("@", text)
    text = _VALUE.sub("%", text)
    text = _SHAPE.sub("#x", text)
    text = _NODE.sub("t#", text)
    text = _NUMBER.sub("#", text)
    text = _LIST.sub("#", text)
    return _SPACE.sub(" ", text).strip(" .:;,")[:LENGTH].rstrip()


def signature(name: str, parts: list[str]) -> str:
    """`class`, or `class:text` with the identifying parts."""
    text = " ".join(part for part in parts if part)
    return f"{name}:{text}" if text else name
