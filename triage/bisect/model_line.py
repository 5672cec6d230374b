"""Commits of a model repository as places to probe: the case changes from one to the next, the compiler stays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from triage.bisect.belief import Floats
from triage.bisect.line import note_of, revision_of
from triage.bisect.models import ModelHistory
from triage.bisect.prior import Clues
from triage.bisect.result import CommitNote
from triage.model.case import Case
from triage.model.errors import BadInput
from triage.model.outcome import Cause, Untestable
from triage.model.revision import Revision
from triage.timeline import Span, Timeline
from triage.toolchains.shed import Place


@dataclass(frozen=True, slots=True)
class ModelLine:
    """`indices`: of the spots' commits on the timeline, the good end's first; `compiler`: compiles at every spot."""

    timeline: Timeline
    models: ModelHistory
    indices: tuple[int, ...]
    compiler: Place

    def __len__(self) -> int:
        return len(self.indices)

    def place(self, index: int) -> Place:  # noqa: ARG002 - the port's name
        return self.compiler

    def case(self, index: int, case: Case) -> Case | Untestable:  # noqa: ARG002
        try:
            return self.models.at(self.timeline.commits[self.indices[index]].sha)
        except BadInput as error:
            return Untestable(Cause.RECIPE, str(error))

    def revision(self, index: int) -> Revision:
        return revision_of(self.timeline.commits[self.indices[index]])

    def closed(self) -> Mapping[int, str]:
        return {}

    def prices(self) -> Floats:
        return np.zeros(len(self.indices))

    def weights(self, clues: Clues) -> Floats:  # noqa: ARG002
        return np.ones(len(self.indices))

    def notes(self, indices: Sequence[int], clues: Clues) -> Mapping[str, CommitNote]:  # noqa: ARG002
        commits = self.timeline.with_files(self.indices[index] for index in indices if index > 0)
        return {commit.sha: note_of(commit, self.timeline.links) for commit in commits}


def model_line(timeline: Timeline, span: Span, models: ModelHistory, compiler: Place) -> ModelLine:
    """The span's good end, and those of its commits that changed anything the case is made of: no other can have changed
    the outcome. Where the bad end changed nothing, the last one that did stands for it.
    """
    places = range(span.good.index, span.bad.index + 1)
    contents = models.contents([timeline.commits[index].sha for index in places])
    changed = [index for index, (old, new) in zip(places[1:], pairwise(contents), strict=True) if old != new]
    return ModelLine(timeline, models, (span.good.index, *changed), compiler)
