"""Write the static site of all stored nights: pages from templates, data in files that
the pages load when they need them.
"""

from __future__ import annotations

import re
import shutil
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import distribution
from importlib.resources import files
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
from jinja2 import Environment

from triage.execution.cache import ResultCache
from triage.investigate.result import ClusterKey
from triage.model.errors import BadInput
from triage.model.json_form import as_json
from triage.model.outcome import FAILING, PASSING, Status
from triage.model.revision import Revision
from triage.nightly.history import NightsHistory, Track, status_in
from triage.nightly.known_case import log_of, states_of, stored_log
from triage.nightly.store import NightStore
from triage.nightly.trends import (
    FailingRun,
    FailureLife,
    KnownFailure,
    MetricStep,
    failure_lives,
    find_steps,
    known_failures,
)
from triage.nightly.verdict import (
    Action,
    BackendVerdict,
    action_of,
    reason_of,
    summed_up,
)
from triage.recipes.values import parse_version
from triage.report.document import (
    Block,
    Code,
    Details,
    Facts,
    Heading,
    Inline,
    Span,
    Table,
)
from triage.report.elements import compare_url, plural
from triage.report.html import fragment, html_templates, inline_markup
from triage.report.issue import issue_markdown
from triage.report.night_issue import (
    backend_sentence,
    cluster_blocks,
    known_facts,
)
from triage.report.printable import visible
from triage.report.site_data import (
    METRICS,
    case_file_count,
    case_files,
    data_file,
    grid,
    night_rows,
    timestamp,
    track_rows,
)
from triage.toolchains.home import disk_errors, write_whole

_MARK = "made-by-triage-site"  # a folder with this file may be written again
_MOST_CASES = 500  # of a failure on its page
_MOST_ROWS = 100  # of a table on the first page; the grid shows the rest
_CHART_FILES = ("uPlot.iife.js", "uPlot.min.css")
_HASH = re.compile(r"\b[0-9a-f]{32,}\b")
_ISSUE = re.compile(r"([\w.-]+/[\w.-]+)#(\d+)")


@dataclass
class Site:
    """A site that is being written."""

    store: NightStore
    out: Path
    cache: ResultCache | None = None
    """The results to take logs and older states from."""
    sizes: list[int] = field(default_factory=list)
    history: NightsHistory = field(init=False)
    steps: dict[str, list[MetricStep]] = field(init=False)
    lives: tuple[FailureLife, ...] = field(init=False)

    def write(self) -> dict[str, Any]:
        """Write all pages and return their numbers. Raises BadInput when there are no
        nights, or the folder has other files.
        """
        self.history = self.store.history()
        if not self.history.nights:
            raise BadInput("no nights are stored; run `triage nightly`")
        with disk_errors(f"write {self.out}"):
            _clear(self.out)
            self._assets()
            self.steps = self._steps()
            self.lives = failure_lives(self.history)
            self._data()
            self._pages()
        counts = {
            "nights": len(self.history.nights),
            "cases": len(self.history.rows),
            "failures": len(self.lives),
        }
        sizes = {
            "steps": sum(map(len, self.steps.values())),
            "files": len(self.sizes),
            "bytes": sum(self.sizes),
        }
        return {"index": str(self.out / "index.html"), **counts, **sizes}

    def _file(self, name: str, content: str | bytes) -> None:
        write_whole(self.out / name, content)
        self.sizes.append(
            len(content.encode()) if isinstance(content, str) else len(content)
        )

    def _assets(self) -> None:
        self._file(_MARK, "`triage site` may write this folder again.\n")
        for name in ("site.css", "site.js"):
            self._file(
                f"assets/{name}",
                files("triage.report").joinpath("assets", name).read_bytes(),
            )
        # not imported, because it imports IPython
        charts = distribution("uplot-python")
        for name in _CHART_FILES:
            self._file(
                f"assets/{name}",
                Path(str(charts.locate_file(f"uplot/static/{name}"))).read_bytes(),
            )

    def _steps(self) -> dict[str, list[MetricStep]]:
        return {
            metric.name: list(
                find_steps(
                    self.history.metrics[metric.name], metric.least, metric.least_by
                )
            )
            for metric in METRICS
            if metric.name in self.history.metrics
        }

    def _data(self) -> None:
        failing = {row for life in self.lives for row in life.rows}
        numbers = {
            signature: number
            for number, signature in enumerate(self.history.signatures)
        }
        pages = {
            (row, numbers[life.signature]): life.page
            for life in self.lives
            for row in life.rows
        }
        self._file("data/nights.js", data_file("nights", night_rows(self.history)))
        self._file("data/tracks.js", data_file("tracks", track_rows(self.history)))
        self._file("data/grid.js", data_file("grid", grid(self.history, pages)))

        def facts(row: int) -> Mapping[str, Any]:
            if row in failing:
                return self._case_facts(row)
            return {}

        for name, text in case_files(self.history, self.steps, facts, pages):
            self._file(f"data/{name}.js", text)

    def _case_facts(self, row: int) -> dict[str, Any]:
        if self.cache:
            records = self.cache.newest_of(self.history.rows[row][1])
        else:
            records = ()
        last = next(run.last for run in reversed(self.history.runs[row]) if run.failed)
        log = log_of(records, self.history.nights[last].toolchain.name) or stored_log(
            self.store, self.history, row
        )
        states = [as_json(state) for state in states_of(records, self.history, [row])]
        return {"states": states, "log": as_json(log) if log else None}

    def _pages(self) -> None:
        history, environment = self.history, _environment()
        known = known_failures(history, self.store.issues())
        common = {
            "title": "triage",
            "history": history,
            "night": lambda number: history.nights[number],
            "known": lambda life: known.get(life.key),
            "last": history.nights[-1],
            "age": self._age,
            "case_name": lambda row: history.names[row],
            "files": case_file_count(history),
            "since": lambda life, failing: inline_markup(
                _range(life.track.compiler, *_came(history, failing))
            ),
            "range": lambda row, old, new: inline_markup(
                _range(history.rows[row][0].compiler, old, new)
            ),
        }

        def page(name: str, template: str, **values: object) -> None:
            root = "../" * name.count("/")
            self._file(
                name,
                environment.get_template(f"site/{template}").render(
                    {**common, "root": root, **values}
                ),
            )

        new = {
            life.page: [
                failing for failing in life.open_runs if history.is_new(failing.row)
            ]
            for life in self.lives
            if life.state == "open"
        }
        page(
            "index.html",
            "index.html.j2",
            cards=[self._card(track, new) for track in history.tracks],
            verdicts=sorted(
                (self._verdict(track, new, known) for track in history.tracks),
                key=lambda verdict: verdict[1] != "bad",
            ),
            to_do=lambda life: _to_do(life, known.get(life.key)),
            new=[(life, new[life.page]) for life in self.lives if new.get(life.page)][
                :_MOST_ROWS
            ],
            open=[life for life in self.lives if life.state != "gone"],
            gone=sorted(
                (life for life in self.lives if life.state == "gone"),
                key=lambda life: -(life.gone or 0),
            )[:20],
            flaky=sorted(history.flaky.items(), key=lambda item: -item[1])[:20],
            most=_MOST_ROWS,
        )
        page("grid.html", "grid.html.j2")
        page("case.html", "case.html.j2", metrics=METRICS)
        page("trends.html", "trends.html.j2", rows=self._trends(), metrics=METRICS)
        pages = {life.key.id: life.page for life in reversed(self.lives)}
        for life in self.lives:
            facts = known.get(life.key)
            content = fragment(self._failure_blocks(life, facts, pages))
            page(
                f"failures/{life.page}.html",
                "failure.html.j2",
                life=life,
                content=content,
            )

    def _failure_blocks(
        self, life: FailureLife, known: KnownFailure | None, pages: Mapping[str, str]
    ) -> list[Block]:
        if known:
            cluster = known.cluster
        else:
            cluster = life.key.cluster([], life.kind)
        facts = self._dates(life)
        facts += known_facts(cluster, life.track.compiler)
        if known and known.tracker:
            facts += [("issue", _issue(known.tracker))]
        same = [
            Span(other, url=f"{pages[other]}.html" if other in pages else None)
            for other in cluster.same_culprit
        ]
        facts += [("same culprit", other) for other in same]
        drafts: list[Block] = []
        if known and cluster.is_investigated:
            night = self.history.nights[known.night]
            draft = issue_markdown(cluster, night, with_title=True)
            drafts.append(Details("Draft of an issue in Markdown", [Code(draft)]))
        kind = life.kind
        place = _HASH.sub("input", (kind.location or "").rpartition("/")[2])
        texts = {
            "track": life.track.name,
            "signature": life.signature,
            "stage": kind.stage.value,
            "phase": kind.phase,
            "pass": kind.failing_pass,
            "where": place,
        }
        return [
            *cluster_blocks(cluster, facts),
            *drafts,
            Heading(f"Cases ({len(life.rows)})"),
            self._cases(life),
            Heading("Failure"),
            Facts([(name, text) for name, text in texts.items() if text]),
        ]

    def _day(self, number: int) -> str:
        return self.history.nights[number].started[:10]

    def _dates(self, life: FailureLife) -> list[tuple[str, Inline]]:
        """Return when a failure came, and when it went or was seen last."""
        nights, compiler = self.history.nights, life.track.compiler
        came, first = life.current.run.first, life.first.run.first
        since = _range(compiler, *_came(self.history, life.current))
        facts: list[tuple[str, Inline]] = [("since", [*since, f", {self._day(came)}"])]

        def seen(number: int) -> str:
            return f"{self._day(number)} with {_revision(nights[number].toolchain)}"

        if first != came:
            facts.append(("first seen", seen(first)))
        if life.gone is None:
            facts.append(("last seen", seen(life.last)))
        else:
            ends = (nights[life.last].toolchain, nights[life.gone].toolchain)
            gone = _range(compiler, *ends)
            facts.append(("gone", [*gone, f", {self._day(life.gone)}"]))
        return facts

    def _cases(self, life: FailureLife) -> Table:
        rows: list[list[Inline]] = []
        for failing in life.runs[:_MOST_CASES]:
            name, run = visible(self.history.names[failing.row]), failing.run
            if failing.after:
                now = f"gone since {self._day(failing.after.first)}"
            elif run.status is Status.XFAIL:
                now = "fails as expected"
            else:
                now = "fails"
            link = Span(name, url=f"../case.html#{quote(name, safe='')}")
            rows.append([link, self._day(run.first), self._day(run.last), now])
        return Table(("case", "since", "last seen", "now"), rows)

    def _card(
        self, track: Track, new: Mapping[str, Sequence[FailingRun]]
    ) -> dict[str, object]:
        history, last = self.history, self.history.last_night(track)
        rows = [row for row, (own, _) in enumerate(history.rows) if own == track]
        statuses = Counter(
            status_in(int(code))[0] for code in history.known_states[rows, last] if code
        )
        passed, failed = (
            sum(statuses[status] for status in group) for group in (PASSING, FAILING)
        )
        lives = [life for life in self.lives if life.track == track]
        return {
            "track": track,
            "night": history.nights[last],
            "rate": f"{100 * passed / (passed + failed):.2f} %"
            if passed + failed
            else "-",
            "passed": passed,
            "failed": statuses[Status.FAILED],
            "known": statuses[Status.XFAIL],
            "untestable": statuses[Status.UNTESTABLE],
            "new": sum(len(new.get(life.page, ())) for life in lives),
            "open": sum(len(life.open_runs) for life in lives if life.state == "open"),
            "not_run": int((history.states[rows, last] == 0).sum()),
        }

    def _verdict(
        self,
        track: Track,
        new: Mapping[str, Sequence[FailingRun]],
        known: Mapping[ClusterKey, KnownFailure],
    ) -> tuple[str, str]:
        """Return what the last night of a track says, and its style."""
        history, last = self.history, self.history.last_night(track)
        day, name = self._day(last), history.nights[last].toolchain.name
        lives = [life for life in self.lives if life.track == track]
        opened = [life for life in lives if new.get(life.page)]
        facts = [known.get(life.key) for life in opened]
        clusters = [
            fact.cluster if fact else life.key.cluster([])
            for life, fact in zip(opened, facts, strict=True)
        ]
        rows = [row for row, (own, _) in enumerate(history.rows) if own == track]
        verdict = BackendVerdict(
            track.name if day in name else f"{day} · {track.name}",
            cases=int((history.states[rows, last] != 0).sum()),
            broken=sum(len(new[life.page]) for life in opened),
            fixed=0,
        )
        tracked = {fact.cluster.id for fact in facts if fact and fact.tracker}
        flaky = [Action.LOOK for row in rows if row in history.flaky]
        verdict = summed_up(verdict, clusters, flaky, tracked)
        style = "bad" if verdict.broken else "good"
        return backend_sentence(verdict, history.nights[last]), style

    def _trends(self) -> list[tuple[Any, MetricStep]]:
        titled = {metric.name: metric for metric in METRICS}
        rows = [
            (titled[name], step) for name, steps in self.steps.items() for step in steps
        ]
        return sorted(
            rows, key=lambda row: (-row[1].at, -abs(float(np.log(row[1].ratio))))
        )[: 10 * _MOST_ROWS]

    def _age(self, night: int) -> str:
        """Return how long ago a night was, counted from the last one; empty where one
        of them has no valid time.
        """
        last, then = (
            timestamp(self.history.nights[number].started) for number in (-1, night)
        )
        days = int((last - then) // 86400)
        if last and then:
            if days:
                return plural(days, "day")
            return "new"
        return ""


def _to_do(life: FailureLife, known: KnownFailure | None) -> str:
    """Return what to do about a new failure."""
    cluster = known.cluster if known else life.key.cluster([])
    tracked = [cluster.id] if known and known.tracker else []
    match action_of(cluster, tracked):
        case Action.WAIT:
            return "wait for the issue"
        case Action.FILE:
            return "file the draft on its page"
        case _:
            return f"investigate: {reason_of(cluster) or 'not investigated yet'}"


def _clear(out: Path) -> None:
    """Remove an earlier site. Raises BadInput for a folder with other files."""
    if out.is_dir() and any(out.iterdir()):
        if not (out / _MARK).exists():
            raise BadInput(
                f"{out} has files that are not of a site; name another folder with "
                "--out"
            )
        for name in ("assets", "data", "failures"):
            shutil.rmtree(out / name, ignore_errors=True)


def _environment() -> Environment:
    environment = html_templates()
    environment.filters.update(
        issue=lambda issue: inline_markup(_issue(issue)),
        day=lambda at: str(at)[:10],
        number=_number,
    )
    environment.globals.update(plural=plural, revision=_revision)
    return environment


def _issue(issue: str) -> Span:
    """Return a link to an issue that is named `owner/repository#number` or by its
    address.
    """
    match = _ISSUE.fullmatch(issue)
    if match:
        return Span(issue, url=f"https://github.com/{match[1]}/issues/{match[2]}")
    if "://" in issue:
        return Span(issue, url=issue)
    return Span(issue)


def _revision(revision: Revision | None) -> str:
    if revision is None:
        return "unknown"
    commit = revision.commit or ""
    is_named = not commit or revision.name.endswith(commit[:10])
    if is_named:
        return revision.name
    return f"{revision.name} ({commit[:10]})"


def _came(
    history: NightsHistory, failing: FailingRun
) -> tuple[Revision | None, Revision]:
    """Return the toolchains between which a failure came: two nights of its track, or
    the baseline of the first night.
    """
    night = history.nights[failing.run.first]
    if failing.before:
        return history.nights[failing.before.last].toolchain, night.toolchain
    return (
        night.baseline if history.regressed(failing.row, failing.run.first) else None
    ), night.toolchain


def _range(compiler: str, old: Revision | None, new: Revision) -> list[str | Span]:
    """Return the range between two toolchains with a link to its commits. It never runs
    backwards.
    """
    if old is None:
        return [f"{new.name} or before"]
    if old == new or (old.commit and old.commit == new.commit):
        return [f"{new.name}, the same compiler"]
    versions = parse_version(old.name), parse_version(new.name)
    if versions[0] and versions[1] and versions[0] > versions[1]:
        return [f"{new.name}, compared with the newer {old.name}"]
    spans: list[str | Span] = [f"{old.name} .. {new.name}"]
    url = compare_url(compiler, old, new)
    if url:
        return [*spans, " ", Span("compare", url=url)]
    return spans


def _number(value: float) -> str:
    if abs(value) < 1000:
        return f"{value:.3g}"
    return f"{value:,.0f}"
