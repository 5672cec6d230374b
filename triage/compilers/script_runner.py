"""Run a script whose folder may not be listed: `script_runner.py SCRIPT WORD...`.
Imports nothing of triage.

Python lists a folder to find a module in it. A sealed script may read the modules that
it needs and list nothing, so each place where a module may be is tried instead.
"""

from __future__ import annotations

import importlib.util
import os
import re
import runpy
import sys
from collections.abc import Sequence
from typing import Any

# Errors of a script that needs what a release of a package lacks.
_LACKING = re.compile(r"module '[\w.]+' has no|unexpected keyword argument")


class ModulesBeside:
    """Finds modules and packages in the folders of all files among the arguments."""

    def __init__(self, words: Sequence[str]) -> None:
        files = [os.path.abspath(word) for word in words if os.path.isfile(word)]
        self.folders = list(dict.fromkeys(map(os.path.dirname, files)))

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: object = None
    ) -> Any:
        for folder in self.folders if path is None else path:
            module_path = os.path.join(folder, name.rpartition(".")[2])
            package = os.path.join(module_path, "__init__.py")
            if os.path.isfile(package):
                return importlib.util.spec_from_file_location(
                    name, package, submodule_search_locations=[module_path]
                )
            if os.path.isfile(f"{module_path}.py"):
                return importlib.util.spec_from_file_location(name, f"{module_path}.py")
        return None


def run_main_script(script: str) -> None:
    """Run a script. What it needs and a release lacks raises ImportError."""
    try:
        runpy.run_path(script, run_name="__main__")
    except (AttributeError, SyntaxError, TypeError) as error:
        is_unreadable = isinstance(error, SyntaxError) and error.filename == script
        if is_unreadable or _LACKING.search(str(error)):
            raise ImportError(f"this release cannot run it: {error}") from error
        raise


if __name__ == "__main__":
    here = os.path.dirname(os.path.abspath(sys.argv.pop(0)))
    sys.path[:] = [folder for folder in sys.path if folder != here]
    finder: Any = ModulesBeside(sys.argv)
    sys.meta_path.append(finder)
    run_main_script(sys.argv[0])
