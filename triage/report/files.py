"""The reports that a nightly leaves behind: Markdown for a job summary, JUnit for a test viewer, JSON for programs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from triage.nightly.compare import Night
from triage.report.junit import junit
from triage.report.markdown import markdown
from triage.report.shapes import night_json
from triage.toolchains.home import disk_errors, write_whole


def write_reports(night: Night, folder: Path) -> Mapping[str, str]:
    """Write `nightly.md`, `nightly.xml` and `nightly.json` below `folder`, each in one step. Format -> path."""
    paths = {"markdown": folder / "nightly.md", "junit": folder / "nightly.xml", "json": folder / "nightly.json"}
    told = {name: str(path) for name, path in paths.items()}
    with disk_errors(f"write the reports to {folder}"):
        write_whole(paths["markdown"], markdown(night))
        write_whole(paths["junit"], junit(night))
        write_whole(paths["json"], json.dumps(night_json(night, told), indent=2) + "\n")
    return told
