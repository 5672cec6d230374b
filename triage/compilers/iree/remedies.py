"""IREE's knowledge about remedies."""

from __future__ import annotations

from importlib.resources import files

import yaml
from pydantic import TypeAdapter

from triage.compilers.analysis import OptionCatalog, RemedyHints, RewriteNames
from triage.compilers.iree.devices import declaring_for, devices_named
from triage.compilers.iree.lint.program import lint_words


def remedy_hints() -> RemedyHints:
    """Options, devices and names of the IREE family."""
    options = yaml.safe_load(files("triage.compilers.iree").joinpath("options.yaml").read_text("utf-8"))
    words = lint_words()
    names = RewriteNames(words.barrier, words.transfers, words.affinity)
    return RemedyHints(TypeAdapter(OptionCatalog).validate_python(options), names, devices_named, declaring_for)
