"""Write the static site of all stored nights: pages from templates, data in files that the pages load when they need them."""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import partial
from importlib.metadata import PackageNotFoundError, distribution
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
from jinja2 import Environment
from markupsafe import Markup

from triage.execution.cache import Evidence
from triage.git_history.refs import Links
from triage.model.errors import BadInput
from triage.model.outcome import FAILING, PASSING
from triage.nights.failures import NOTHING_KNOWN, FailureLife, failure_lives, investigations, new_failures
from triage.nights.history import NightsHistory, load_history
from triage.nights.steps import MetricStep, find_steps, is_available
from triage.nights.store import NightStore
from triage.report.answer import Answer
from triage.report.case_facts import log_of, records_of, states_of, stored_log, version_key
from triage.report.document import Paragraph
from triage.report.elements import plural
from triage.report.markdown import html_templates
from triage.report.night_record import cluster_id
from triage.report.printable import visible
from triage.report.shapes import Shape, as_json
from triage.report.site_data import METRICS, case_file_count, case_files, data_file, grid, night_rows, timestamp
from triage.report.stored_nights import input_name
from triage.toolchains.home import disk_errors, write_whole

SERVER = "https://github.com"
_MARK = "made-by-triage-site"  # a folder with this file may be written again
_MOST_ROWS = 100  # of a table on the first page; the grid shows the rest
_CHART_FILES = ("uPlot.iife.js", "uPlot.min.css")
_ISSUE = re.compile(r"(?P<repository>[\w.-]+/[\w.-]+)#(?P<number>\d+)")


@dataclass(frozen=True)
class SiteShape(Shape):
    """JSON of `triage site`. index: the first page; missing: parts of the extra `site` that are not installed."""

    index: str
    nights: int
    cases: int
    failures: int
    steps: int
    files: int
    bytes: int
    missing: list[str]


@dataclass
class Site:
    """A site that is being written. evidence: the results to take logs and older states from, None for none; server: address of
    the one with the issues.
    """

    store: NightStore
    out: Path
    evidence: Evidence | None = None
    title: str = "triage"
    server: str = SERVER
    sizes: list[int] = field(default_factory=list)
    history: NightsHistory = field(init=False)
    steps: dict[str, list[MetricStep]] = field(init=False)

    def write(self) -> SiteShape:
        """Write all pages. Raises BadInput when there are no nights, or the folder has other files."""
        self.history = load_history(self.store)
        if not self.history.nights:
            raise BadInput("no nights are stored; run `triage nightly`")
        with disk_errors(f"write {self.out}"):
            _clear(self.out)
            missing = self._assets()
            self.steps = self._steps()
            lives = failure_lives(self.history)
            known = investigations(self.store, self.history.nights)
            self._data(lives)
            self._pages(lives, known, has_charts=not missing)
        if not is_available():
            missing = [*missing, "ruptures"]
        return SiteShape(
            index=str(self.out / "index.html"),
            nights=len(self.history.nights),
            cases=len(self.history.cases),
            failures=len(lives),
            steps=sum(map(len, self.steps.values())),
            files=len(self.sizes),
            bytes=sum(self.sizes),
            missing=missing,
        )

    def _file(self, name: str, content: str | bytes) -> None:
        write_whole(self.out / name, content)
        self.sizes.append(len(content.encode()) if isinstance(content, str) else len(content))

    def _assets(self) -> list[str]:
        """Copy the style, the program and the chart library; return the parts that are not installed."""
        self._file(_MARK, "`triage site` may write this folder again.\n")
        for name in ("site.css", "site.js"):
            self._file(f"assets/{name}", files("triage.report").joinpath("assets", name).read_bytes())
        try:
            charts = distribution("uplot-python")  # not imported, because it imports IPython
        except PackageNotFoundError:
            return ["uplot-python"]
        for name in _CHART_FILES:
            self._file(f"assets/{name}", Path(str(charts.locate_file(f"uplot/static/{name}"))).read_bytes())
        return []

    def _steps(self) -> dict[str, list[MetricStep]]:
        if not is_available():
            return {}
        return {
            metric.name: list(find_steps(self.history.metrics[metric.name], metric.least, metric.least_by))
            for metric in METRICS
            if metric.name in self.history.metrics
        }

    def _data(self, lives: tuple[FailureLife, ...]) -> None:
        failing = {case for life in lives for case in life.cases}
        self._file("data/nights.js", data_file("nights", night_rows(self.history)))
        self._file("data/grid.js", data_file("grid", grid(self.history)))

        def facts(row: int) -> Mapping[str, Any]:
            return self._case_facts(row) if row in failing else {}

        for name, text in case_files(self.history, self.steps, facts):
            self._file(f"data/{name}.js", text)

    def _case_facts(self, row: int) -> dict[str, Any]:
        records = records_of(self.evidence, self.history.cases[row])
        last = next(run.last for run in reversed(self.history.runs[row]) if run.failed)
        log = log_of(records, self.history.nights[last].toolchain.name) or stored_log(self.store, self.history, row)
        states = [as_json(state) for state in states_of(records, self.history, row)]
        return {"states": states, "log": as_json(log) if log else None}

    def _pages(self, lives: tuple[FailureLife, ...], known: Mapping[str, Mapping[str, Any]], *, has_charts: bool) -> None:
        history, environment = self.history, _environment(self.server)
        common = {
            "title": self.title,
            "history": history,
            "night": lambda number: history.nights[number],
            "known": lambda signature: known.get(cluster_id(signature), NOTHING_KNOWN),
            "id": cluster_id,
            "pages": {cluster_id(life.signature) for life in lives},
            "has_charts": has_charts,
            "has_steps": is_available(),
            "last": history.nights[-1],
            "age": self._age,
            "case_name": lambda row: history.cases[row],
            "files": case_file_count(history),
        }

        def page(name: str, template: str, **values: object) -> None:
            root = "../" * name.count("/")
            self._file(name, environment.get_template(f"site/{template}").render({**common, "root": root, **values}))

        new = new_failures(history)
        page(
            "index.html",
            "index.html.j2",
            suites=[history.nights[number] for number in history.last_nights.values()],
            new=[(row, history.kind_of(row, run.last)) for row, run in new.items()][:_MOST_ROWS],
            new_count=len(new),
            open=[life for life in lives if life.open_cases],
            fixed=sorted((life for life in lives if life.fixed), key=lambda life: -(life.fixed or 0))[:20],
            flaky=sorted(history.flaky.items(), key=lambda item: -item[1])[:20],
            most=_MOST_ROWS,
            rate=_rate,
        )
        page("grid.html", "grid.html.j2")
        page("case.html", "case.html.j2", metrics=METRICS)
        page("trends.html", "trends.html.j2", rows=self._trends(), metrics=METRICS)
        for life in lives:
            known_here = known.get(cluster_id(life.signature), {})
            page(f"failures/{cluster_id(life.signature)}.html", "failure.html.j2", life=life, **self._texts(known_here))

    def _trends(self) -> list[tuple[Any, MetricStep]]:
        titled = {metric.name: metric for metric in METRICS}
        rows = [(titled[name], step) for name, steps in self.steps.items() for step in steps]
        return sorted(rows, key=lambda row: (-row[1].at, -abs(float(np.log(row[1].ratio)))))[: 10 * _MOST_ROWS]

    def _texts(self, known: Mapping[str, Any]) -> dict[str, object]:
        """Return the stored texts of a failure: the files of its reproducer, its program before, the draft of its issue."""
        nights = known.get("nights", {})

        def text(path: str | None, field_name: str) -> str | None:
            content = self.store.file(path, nights[field_name]) if path and field_name in nights else None
            return None if content is None else visible(content.decode("utf-8", "replace"))

        reproducer, page = known.get("reproducer"), (known.get("attribution") or {}).get("page")
        programs: dict[str, str] = {}
        if reproducer and "reproducer" in nights:
            for path in self.store.files(nights["reproducer"]):
                if path.startswith(f"{reproducer.rstrip('/')}/") and (content := text(path, "reproducer")) is not None:
                    programs[Path(path).name] = content
        before = input_name(str(known.get("representative")))
        return {
            "reproducer": dict(sorted(programs.items(), key=lambda item: not item[0].startswith("input."))),
            "before": text(before, "reproducer"),
            "draft": text(known.get("issue"), "issue"),
            "divergence": text(page, "attribution"),
        }

    def _age(self, night: int) -> str:
        """Return how long ago a night was, counted from the last one; empty where one of them has no valid time."""
        last, then = (timestamp(self.history.nights[number].at) for number in (-1, night))
        days = int((last - then) // 86400)
        return (plural(days, "day") if days else "new") if last and then else ""


def site_report(shape: SiteShape) -> Answer:
    """Return the report of a written site."""
    counts = f"{plural(shape.nights, 'night')}, {plural(shape.cases, 'case')}, {plural(shape.failures, 'failure')}"
    lines = [Paragraph(f"{counts}; {plural(shape.files, 'file')}, {shape.bytes / 1e6:.1f} MB"), Paragraph(shape.index)]
    return Answer(shape, lines)


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
        number=_number,
        by_version=lambda states: sorted(states.items(), key=lambda item: version_key(item[0])),
    )
    environment.globals.update(plural=plural, revision=_revision, commits=_commits)
    return environment


def _issue_link(issue: str, server: str) -> Markup:
    """Return a link to an issue that is named `owner/repository#number` or by its address, or else its text."""
    match = _ISSUE.fullmatch(issue)
    address = Links(f"{server.rstrip('/')}/{match['repository']}").issue(int(match["number"])) if match else issue
    if not address.startswith(("https://", "http://")):
        return Markup.escape(visible(issue))
    return Markup('<a href="{}">{}</a>').format(address, visible(issue))


def _revision(revision: Any) -> str:
    """Return the name of a revision and the start of its commit. It is a `Revision`, or its JSON."""
    if revision is None:
        return "unknown"
    values: Mapping[str, Any] = revision if isinstance(revision, Mapping) else asdict(revision)
    commit = values["commit"] or ""
    is_named = not commit or str(values["name"]).endswith(commit[:10])
    return str(values["name"]) if is_named else f"{values['name']} ({commit[:10]})"


def _commits(before: Any, after: Any) -> str:
    """Return the range of commits between two nights, or of their toolchains where the commits are not known."""
    old, new = before.toolchain, after.toolchain
    if old.commit and new.commit:
        same = old.commit == new.commit
        return f"{old.commit[:10]}, the same compiler" if same else f"{old.commit[:10]}..{new.commit[:10]}"
    return f"{old.name} .. {new.name}"


def _number(value: float) -> str:
    return f"{value:.3g}" if abs(value) < 1000 else f"{value:,.0f}"


def _rate(counts: Mapping[str, int]) -> str:
    """Return the share of passing cases among those that were tested."""
    passed, failed = (sum(counts.get(status, 0) for status in group) for group in (PASSING, FAILING))
    tested = passed + failed
    return f"{100 * passed / tested:.2f} %" if tested else "-"
