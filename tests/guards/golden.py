"""Compare the part of an answer that people rely on, named in shapes.yaml, with a
golden file. Further keys are welcome.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import yaml

from tests.conftest import ROOT

FOLDER = Path(__file__).parent / "golden"
# what a generator of a recipe wrote
GENERATED = re.compile(r"TMP/\S+/[0-9a-f]{64}\.mlir")

SHAPES = yaml.safe_load(Path(__file__).with_name("shapes.yaml").read_text())


def selected(value: Any, shape: Any, where: str = "$") -> Any:
    """Return the part of a value that the shape names. A dict in a shape accepts null
    as well.
    """
    if isinstance(shape, dict):
        if value is None:
            return None
        missing = shape.keys() - value.keys()
        assert not missing, f"{where} lacks {sorted(missing)}"
        return {
            key: selected(value[key], inner, f"{where}.{key}")
            for key, inner in shape.items()
        }
    if isinstance(shape, list):
        return [
            selected(item, shape[0], f"{where}[{number}]")
            for number, item in enumerate(value)
        ]
    if shape == "any" or (value is None and shape == "number"):
        return value
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    assert is_number or shape == "present", f"{where}: {value!r}"
    return f"<{shape}>"


def check(name: str, value: Any, shape: str, *folders: Path) -> None:
    """Compare with the golden file of this name, or write it. `folders`: temporary
    ones, whose paths are not compared.
    """
    part = selected(value, SHAPES[shape])
    text = json.dumps(part, indent=1, ensure_ascii=False, sort_keys=True)
    for folder in folders:
        text = text.replace(str(folder), "TMP")
    text = GENERATED.sub("INPUT.mlir", text.replace(str(ROOT), "ROOT"))
    path = FOLDER / f"{name}.json"
    if os.environ.get("TRIAGE_REWRITE_GOLDEN"):
        path.write_text(text + "\n")
    assert json.loads(text) == json.loads(path.read_text()), f"differs from {path.name}"
