"""Write the static site of all stored nights: pages from templates, data in files that the pages load when they need them."""

from __future__ import annotations

import re
import shutil
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from importlib.metadata import distribution
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
from jinja2 import Environment
from markupsafe import Markup

from triage.execution.cache import ResultCache
from triage.git_history.refs import Links
from triage.model.errors import BadInput
from triage.model.json_form import as_json
from triage.model.outcome import FAILING, PASSING, Status
from triage.model.revision import Revision
from triage.nightly.columns import status_in
from triage.nightly.failures import FailingRun, FailureLife, failure_lives, known_failures
from triage.nightly.history import NightsHistory, Track, load_history
from triage.nightly.known_case import log_of, states_of, stored_log, version_key
from triage.nightly.result import cluster_id
from triage.nightly.store import NightStore
from triage.nightly.trends import MetricStep, find_steps
from triage.report.document import Document, Paragraph
from triage.report.elements import plural
from triage.report.markdown import html_templates
from triage.report.night_issue import issue_markdown
from triage.report.printable import visible
from triage.report.site_data import METRICS, case_file_count, case_files, data_file, grid, night_rows, timestamp, track_rows
from triage.toolchains.home import disk_errors, write_whole

SERVER = "https://github.com"
_MARK = "made-by-triage-site"  # a folder with this file may be written again
_MOST_ROWS = 100  # of a table on the first page; the grid shows the rest
_CHART_FILES = ("uPlot.iife.js", "uPlot.min.css")
_HASH = re.compile(r"\b[0-9a-f]{32,}\b")
_ISSUE = re.compile(r"(?P<repository>[\w.-]+/[\w.-]+)#(?P<number>\d+)")


@dataclass(frozen=True)
class SiteShape:
    """JSON of `triage site`. index: the first page."""

    index: str
    nights: int
    cases: int
    failures: int
    steps: int
    files: int
    bytes: int


@dataclass
class Site:
    """A site that is being written. evidence: the results to take logs and older states from, None for none; server: address of
    the one with the issues.
    """

    store: NightStore
    out: Path
    evidence: ResultCache | None = None
    title: str = "triage"
    server: str = SERVER
    sizes: list[int] = field(default_factory=list)
    history: NightsHistory = field(init=False)
    steps: dict[str, list[MetricStep]] = field(init=False)
    lives: tuple[FailureLife, ...] = field(init=False)

    def write(self) -> SiteShape:
        """Write all pages. Raises BadInput when there are no nights, or the folder has other files."""
        self.history = load_history(self.store)
        if not self.history.nights:
            raise BadInput("no nights are stored; run `triage nightly`")
        with disk_errors(f"write {self.out}"):
            _clear(self.out)
            self._assets()
            self.steps = self._steps()
            self.lives = failure_lives(self.history)
            self._data()
            self._pages()
        return SiteShape(
            index=str(self.out / "index.html"),
            nights=len(self.history.nights),
            cases=len(self.history.rows),
            failures=len(self.lives),
            steps=sum(map(len, self.steps.values())),
            files=len(self.sizes),
            bytes=sum(self.sizes),
        )

    def _file(self, name: str, content: str | bytes) -> None:
        write_whole(self.out / name, content)
        self.sizes.append(len(content.encode()) if isinstance(content, str) else len(content))

    def _assets(self) -> None:
        """Copy the style, the program and the chart library."""
        self._file(_MARK, "`triage site` may write this folder again.\n")
        for name in ("site.css", "site.js"):
            self._file(f"assets/{name}", files("triage.report").joinpath("assets", name).read_bytes())
        charts = distribution("uplot-python")  # not imported, because it imports IPython
        for name in _CHART_FILES:
            self._file(f"assets/{name}", Path(str(charts.locate_file(f"uplot/static/{name}"))).read_bytes())

    def _steps(self) -> dict[str, list[MetricStep]]:
        return {
            metric.name: list(find_steps(self.history.metrics[metric.name], metric.least, metric.least_by))
            for metric in METRICS
            if metric.name in self.history.metrics
        }

    def _data(self) -> None:
        failing = {row for life in self.lives for row in life.rows}
        numbers = {signature: number for number, signature in enumerate(self.history.signatures)}
        pages = {(row, numbers[life.signature]): life.page for life in self.lives for row in life.rows}
        self._file("data/nights.js", data_file("nights", night_rows(self.history)))
        self._file("data/tracks.js", data_file("tracks", track_rows(self.history)))
        self._file("data/grid.js", data_file("grid", grid(self.history, pages)))

        def facts(row: int) -> Mapping[str, Any]:
            return self._case_facts(row) if row in failing else {}

        for name, text in case_files(self.history, self.steps, facts, pages):
            self._file(f"data/{name}.js", text)

    def _case_facts(self, row: int) -> dict[str, Any]:
        records = self.evidence.newest_of(self.history.rows[row][1]) if self.evidence else ()
        last = next(run.last for run in reversed(self.history.runs[row]) if run.failed)
        log = log_of(records, self.history.nights[last].toolchain.name) or stored_log(self.store, self.history, row)
        states = [as_json(state) for state in states_of(records, self.history, [row])]
        return {"states": states, "log": as_json(log) if log else None}

    def _pages(self) -> None:
        history, environment = self.history, _environment(self.server)
        known = known_failures(self.store, history)
        common = {
            "title": self.title,
            "history": history,
            "night": lambda number: history.nights[number],
            "known": lambda life: known.get((life.track.compiler, life.signature)),
            "last": history.nights[-1],
            "age": self._age,
            "case_name": lambda row: history.names[row],
            "files": case_file_count(history),
            "range": _range,
            "since": partial(_since, history),
        }

        def page(name: str, template: str, **values: object) -> None:
            root = "../" * name.count("/")
            self._file(name, environment.get_template(f"site/{template}").render({**common, "root": root, **values}))

        new = {life.page: [row for row in life.open_rows if history.is_new(row)] for life in self.lives if life.state == "open"}
        page(
            "index.html",
            "index.html.j2",
            cards=[self._card(track, new) for track in history.tracks],
            new=[(life, new[life.page]) for life in self.lives if new.get(life.page)][:_MOST_ROWS],
            open=[life for life in self.lives if life.state != "gone"],
            gone=sorted((life for life in self.lives if life.state == "gone"), key=lambda life: -(life.gone or 0))[:20],
            flaky=sorted(history.flaky.items(), key=lambda item: -item[1])[:20],
            most=_MOST_ROWS,
        )
        page("grid.html", "grid.html.j2")
        page("case.html", "case.html.j2", metrics=METRICS)
        page("trends.html", "trends.html.j2", rows=self._trends(), metrics=METRICS)
        pages = {cluster_id(life.signature): life.page for life in reversed(self.lives)}
        for life in self.lives:
            facts = known.get((life.track.compiler, life.signature))
            draft = issue_markdown(facts.cluster, history.nights[facts.night]) if facts and facts.cluster.steps else None
            page(f"failures/{life.page}.html", "failure.html.j2", life=life, facts=facts, draft=draft, pages=pages)

    def _card(self, track: Track, new: Mapping[str, Sequence[int]]) -> dict[str, object]:
        """Return the numbers of the last night of a track, and its new and open failures."""
        history = self.history
        last = history.last_night(track)
        rows = [row for row, (own, _) in enumerate(history.rows) if own == track]
        statuses = Counter(status_in(int(code))[0] for row in rows if (code := history.states[row, last]))
        passed, failed = (sum(statuses[status] for status in group) for group in (PASSING, FAILING))
        lives = [life for life in self.lives if life.track == track]
        return {
            "track": track,
            "night": history.nights[last],
            "rate": f"{100 * passed / (passed + failed):.2f} %" if passed + failed else "-",
            "passed": passed,
            "failed": statuses[Status.FAILED],
            "known": statuses[Status.XFAIL],
            "untestable": statuses[Status.UNTESTABLE],
            "new": sum(len(new.get(life.page, ())) for life in lives),
            "open": sum(len(life.open_rows) for life in lives if life.state == "open"),
            "not_run": len(rows) - statuses.total(),
        }

    def _trends(self) -> list[tuple[Any, MetricStep]]:
        titled = {metric.name: metric for metric in METRICS}
        rows = [(titled[name], step) for name, steps in self.steps.items() for step in steps]
        return sorted(rows, key=lambda row: (-row[1].at, -abs(float(np.log(row[1].ratio)))))[: 10 * _MOST_ROWS]

    def _age(self, night: int) -> str:
        """Return how long ago a night was, counted from the last one; empty where one of them has no valid time."""
        last, then = (timestamp(self.history.nights[number].started) for number in (-1, night))
        days = int((last - then) // 86400)
        return (plural(days, "day") if days else "new") if last and then else ""


def site_document(shape: SiteShape) -> Document:
    """Show the size of a written site."""
    counts = f"{plural(shape.nights, 'night')}, {plural(shape.cases, 'case')}, {plural(shape.failures, 'failure')}"
    lines = [Paragraph(f"{counts}; {plural(shape.files, 'file')}, {shape.bytes / 1e6:.1f} MB"), Paragraph(shape.index)]
    return Document("Site", lines)


def _clear(out: Path) -> None:
    """Remove an earlier site. Raises BadInput for a folder with other files."""
    if out.is_dir() and any(out.iterdir()):
        if not (out / _MARK).exists():
            raise BadInput(f"{out} has files that are not of a site; name another folder with --out")
        for name in ("assets", "data", "failures"):
            shutil.rmtree(out / name, ignore_errors=True)


def _environment(server: str) -> Environment:
    """Return the environment of the pages: every value is escaped. server: of issues."""
    environment = html_templates()
    environment.filters.update(
        issue=partial(_issue_link, server=server),
        day=lambda at: str(at)[:10],
        place=lambda location: _HASH.sub("input", str(location or "").rpartition("/")[2]),
        number=_number,
        by_version=lambda states: sorted(states.items(), key=lambda item: version_key(item[0])),
    )
    environment.globals.update(plural=plural, revision=_revision)
    return environment


def _issue_link(issue: str, server: str) -> Markup:
    """Return a link to an issue that is named `owner/repository#number` or by its address, or else its text."""
    match = _ISSUE.fullmatch(issue)
    address = Links(f"{server.rstrip('/')}/{match['repository']}").issue(int(match["number"])) if match else issue
    if not address.startswith(("https://", "http://")):
        return Markup.escape(visible(issue))
    return Markup('<a href="{}">{}</a>').format(address, visible(issue))


def _revision(revision: Revision | None) -> str:
    """Return the name of a revision and the start of its commit."""
    if revision is None:
        return "unknown"
    commit = revision.commit or ""
    is_named = not commit or revision.name.endswith(commit[:10])
    return revision.name if is_named else f"{revision.name} ({commit[:10]})"


def _since(history: NightsHistory, failing: FailingRun) -> str:
    """Return where a failure came: between two nights of its track, or after the baseline of the first night with it."""
    at = failing.run.first
    if failing.before:
        return _range(history.nights[failing.before.last].toolchain, history.nights[at].toolchain)
    if history.regressed(failing.row, at):
        return _range(history.nights[at].baseline, history.nights[at].toolchain)
    return f"{history.nights[at].toolchain.name} or before"


def _range(old: Revision, new: Revision) -> str:
    """Return the commits between two toolchains, or their names where the commits are not known."""
    if old == new or (old.commit and old.commit == new.commit):
        return f"{new.name}, the same compiler"
    are_nightlies = old.commit and new.commit and new.name.startswith("nightly:")
    return f"{old.commit[:10]}..{new.commit[:10]}" if are_nightlies else f"{old.name} .. {new.name}"  # type: ignore[index]


def _number(value: float) -> str:
    return f"{value:.3g}" if abs(value) < 1000 else f"{value:,.0f}"
