"""The best draft on disk, so that a reduction that was ended at any moment goes on from it."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import asdict, dataclass, replace
from hashlib import sha256
from pathlib import Path

from triage.compilers.registry import family_of
from triage.execution.prober import Scratch
from triage.model.case import Case, Flag, KernelSpec, Target
from triage.model.outcome import Cause, Failure, Probe
from triage.model.progress import Task
from triage.model.revision import Revision
from triage.reduce.draft import Draft, Program
from triage.reduce.oracle import Oracle
from triage.reduce.search import Racing
from triage.toolchains.home import disk_errors, write_whole


class State:
    """A folder with `best.mlir` (or the input's own suffix) and `settings.json`, each replaced as a whole."""

    def __init__(self, home: Path, key: str) -> None:
        """key: what the reduction is of, its program and its compilers among it; another key is another folder."""
        self.folder = home / "reductions" / sha256(key.encode()).hexdigest()[:16]
        with disk_errors("keep the reduction"):
            self.folder.mkdir(parents=True, exist_ok=True)

    def drafts(self) -> AbstractContextManager[Path]:
        """A folder for drafts' files, of this run alone: two runs of one reduction are in nobody's way."""
        return Scratch(self.folder / "drafts").folder()

    def keep(self, draft: Draft) -> None:
        """Write the draft. The program goes first: settings of an older draft fail on it just as well or are refused."""
        with disk_errors("keep the reduction"):
            write_whole(self.folder / f"best.{draft.document.suffix}", draft.document.content)
            case = draft.case
            settings = {"flags": [asdict(flag) for flag in case.flags], "target": asdict(case.target), "phase": case.phase}
            kernel = family_of(case).kernel(case)
            write_whole(self.folder / "settings.json", json.dumps({**settings, "kernel": kernel and asdict(kernel)}).encode())

    def best(self, case: Case) -> tuple[Path, Case] | None:
        """The kept program and the case with its settings; None where there is none."""
        kept = next(iter(self.folder.glob("best.*")), None)
        with suppress(OSError, ValueError, KeyError, TypeError):
            said = json.loads((self.folder / "settings.json").read_text("utf-8"))
            flags = tuple(Flag(**one) for one in said["flags"])
            spec = KernelSpec(**said["kernel"]) if said["kernel"] else case.spec
            if kept:
                return kept, replace(case, flags=flags, target=Target(**said["target"]), phase=said["phase"], spec=spec)
        return None


@dataclass(frozen=True, slots=True)
class Size:
    """operations: of the tree, the module itself not among them; unit: what they are called, since of other inputs
    than MLIR it is statements, lines or nodes that are counted; lines and bytes of the text.
    """

    operations: int
    lines: int
    bytes: int
    unit: str = "operation"

    def __str__(self) -> str:
        return f"{self.operations} {self.unit}{'' if self.operations == 1 else 's'}"


@dataclass(frozen=True, slots=True)
class Effort:
    """What it took. calls: compiles made; cached: answered by the evidence; invalid: programs that did not verify and
    cost no compile; seconds: wall time; compile_seconds: summed over the compiles.
    """

    calls: int
    cached: int
    invalid: int
    seconds: float
    compile_seconds: float


@dataclass(frozen=True, slots=True)
class Reduced:
    """A smaller program that fails as the first one did. text: what is in the reproducer; evidence: a probe for every
    version it was tried on; others: different failures that were met on the way, the most frequent first; met: what shows
    them, where that is wanted, each with the file that it was kept in meanwhile.
    """

    case: Case
    failure: Failure
    bad: Revision
    good: Revision | None
    text: str
    before: Size
    after: Size
    effort: Effort
    evidence: tuple[Probe, ...] = ()
    others: tuple[Failure, ...] = ()
    notes: tuple[str, ...] = ()
    met: tuple[tuple[Reduced, Path], ...] = ()


@dataclass(frozen=True, slots=True)
class NotReproducible:
    """Nothing was reduced, and why. cause: where the machine or the recipe is to blame; tried: the probes made."""

    case: Case
    reason: str
    tried: Sequence[Probe] = ()
    cause: Cause | None = None


Valid = Callable[[Program], bytes | None]


class Trail:
    """The drafts that a pass took one after another, evenly thinned out: each may be as large as the model."""

    most = 16

    def __init__(self) -> None:
        self.drafts: list[Draft] = []
        self._taken, self._every = 0, 1

    def add(self, draft: Draft) -> None:
        """One more, which is kept if it is its turn."""
        self._taken += 1
        if self._taken % self._every == 0:
            self.drafts.append(draft)
        if len(self.drafts) > self.most:
            self.drafts = self.drafts[1::2]
            self._every *= 2


class Reduction:
    """The hunt that passes are given. Nothing is asked twice, and what is not valid is not compiled."""

    def __init__(self, oracle: Oracle, valid: Valid, keep: Callable[[Draft], None], jobs: int, task: Task) -> None:
        """valid: the canonical content of a valid document, else None; keep: is told each better draft, at once."""
        self.oracle = oracle
        self.best: Draft | None = None
        self.trail = Trail()  # of the pass under way
        self.strict = False  # ask the good toolchain about each draft that fails, not only about a pass's last
        self.invalid = 0
        self._valid, self._keep, self._task = valid, keep, task
        self._what = "the original"
        self._known: dict[str, bool] = {}
        self._asking: dict[str, threading.Lock] = {}
        self._lock = threading.Lock()
        self._racing = Racing(self._ask, jobs)

    def first(self, drafts: Iterable[Draft]) -> Draft | None:
        """The first of the drafts, in order, that fails as it should; it becomes the best."""
        found = self._racing.first(drafts)
        if found is not None:
            self.trail.add(found)
            self.settle(found)
        return found

    def sound(self, draft: Draft) -> bool:
        """Whether the draft is valid and not the same program as the best one."""
        content = self._valid(draft.document)
        same = self.best is not None and _settings(draft) == _settings(self.best)
        return content is not None and not (same and self.best and content == self._valid(self.best.document))

    def settle(self, draft: Draft, *, compiles: bool = False) -> None:
        """Make a draft the best. compiles: the good toolchain compiles it; only then it may be gone on from another day."""
        self.best = draft
        if compiles or self.strict or self.oracle.good is None:
            self._keep(draft)
        self.tell()

    def tell(self, what: str | None = None) -> None:
        """Show where the reduction is. what: the pass that begins; without it the last one goes on."""
        self._what = what if what is not None else self._what
        tally = self.oracle.tally
        size = f"{self.best.document.size} {self.best.document.unit}s" if self.best else ""
        slipped = sum(count for _, count in tally.slipped.values())
        self._task.describe(f"reduce  {self._what}  {size}, {tally.calls} compiles, {tally.cached} known, {slipped} slipped")

    def close(self) -> None:
        """End the threads."""
        self._racing.close()

    def _ask(self, draft: Draft, cancelled: threading.Event) -> bool:
        content = self._valid(draft.document)
        if content is None:
            with self._lock:
                self.invalid += 1
            return False
        key = sha256(content + repr((_settings(draft), self.strict)).encode()).hexdigest()
        with self._lock:
            alone = self._asking.setdefault(key, threading.Lock())
        with alone:  # two ways to one program may be under way at once
            if key not in self._known:
                verdict = self.oracle.fails(draft, cancelled) and (not self.strict or self.oracle.compiles(draft, cancelled))
                self._known[key] = verdict
                self._task.advance()
            return self._known[key]


def _settings(draft: Draft) -> tuple[object, ...]:
    return draft.case.flags, draft.case.target, draft.case.phase, draft.case.spec
