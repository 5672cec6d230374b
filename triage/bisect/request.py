"""What to bisect and how."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from triage.bisect.result import BisectKind
from triage.execution.engine import Engine
from triage.execution.match import Match, same_signature
from triage.git_history.repository import Repository
from triage.model.case import Case
from triage.model.errors import BadInput
from triage.model.outcome import Failure
from triage.toolchains.project import FILE, Project, find_project


@dataclass(frozen=True)
class BisectRequest:
    """What to bisect and how, without the two revisions."""

    engine: Engine
    case: Case
    repo: Path | None = None
    """A clone of the compiler, to search commits; without one, releases are searched.
    """
    kind: BisectKind = BisectKind.REGRESSION
    match_for: Callable[[Failure], Match] = same_signature
    repeats: int = 3
    """How often a pair is probed again if its failure may come and go."""
    build: bool = False
    """Build commits from source although the user's own project file does not say how.
    What the clone's says may run then.
    """

    @cached_property
    def repository(self) -> Repository:
        """The clone. Raises BadInput if it is missing or not a clone."""
        if self.repo is None:
            raise BadInput("commits need a clone of the compiler: name it with --repo")
        return Repository(self.repo)

    @cached_property
    def project(self) -> Project:
        """A `triage.yaml` here outside of the clone, or with `build` the clone's;
        otherwise the file that is shipped. Raises BadFiles if it has mistakes.
        """
        if self.build:
            return find_project(self.case.compiler, Path(), self.repo or Path())
        file = Path(FILE)
        in_clone = (self.repo or Path()) / FILE
        is_own = file.is_file() and not self.repository.contains(file)
        unused = {in_clone.parent.resolve(): in_clone}
        if not is_own:
            unused[file.parent.resolve()] = file
        for path in filter(os.path.lexists, unused.values()):
            warning = (
                f"{path} is not used, because it comes with the clone and can run "
                "commands: pass --build, or copy it to the current folder"
            )
            self.engine.progress.note(warning)
        project = find_project(self.case.compiler, *([file.parent] if is_own else []))
        if is_own:
            return project
        return replace(project, build=None)
