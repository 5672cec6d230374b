"""The files of the site: what they contain, and that text from outside stays text."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from tests.nights.documents import case_result, failure, night, nightly_name, nights
from triage.bisect.result import Answer, Bisection, BisectKind
from triage.investigate.result import ClusterKey, StepResult
from triage.model.revision import Revision
from triage.nightly.store import NightStore
from triage.reduce.result import IssueDraft
from triage.report.site import Site
from triage.toolchains.home import Home

LEGALIZE, SEGFAULT = (
    ClusterKey("iree", "llvm-cpu", signature).id
    for signature in ("legalize:x", "segfault:x")
)
FIX = Bisection(
    case="breaks",
    kind=BisectKind.FIX,
    status=Answer.CULPRIT,
    before=Revision("3.10.0"),
    after=Revision("3.11.0"),
)
HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)>\x1b[31m\u2028"


class Tags(HTMLParser):
    """Collects the names of elements and attributes, the addresses of scripts and
    links.
    """

    def __init__(self, text: str) -> None:
        super().__init__()
        self.names: set[str] = set()
        self.attributes: set[str] = set()
        self.scripts: list[str | None] = []
        self.links: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        self.names.add(tag)
        self.attributes |= set(values)
        self.scripts += [values.get("src")] if tag == "script" else []
        self.links += [values["href"] or ""] if "href" in values else []


def search_rows(out: Path) -> Any:
    text = (out / "data" / "search.js").read_text()
    match = re.fullmatch(r"triageSearch\((.*)\);\n", text, re.DOTALL)
    assert match
    return json.loads(match[1])


@pytest.fixture
def out(tmp_path: Path) -> Path:
    """A site with a hostile case, a failure with everything that an investigation
    finds, and one that is gone.
    """
    store = NightStore(Home(tmp_path / "home"))
    draft = IssueDraft({"input.mlir": f"module {{}} // {HOSTILE}"}, HOSTILE, HOSTILE)
    for record in nights({"breaks": "PPF", "fixed": "GGP", HOSTILE: "PPP"}):
        hostile = case_result(
            HOSTILE, "F", failure=failure(HOSTILE, HOSTILE), summary=HOSTILE
        )
        cases = [hostile if case.case == HOSTILE else case for case in record.cases]
        clusters = [
            replace(
                cluster,
                draft=draft,
                representative="breaks",
                steps=[StepResult("reduce", "done")],
            )
            for cluster in record.clusters
            if cluster.signature == "legalize:x"
        ]
        store.add(replace(record, cases=cases, clusters=clusters))
    Site(store, tmp_path / "public").write()
    return tmp_path / "public"


def test_no_text_from_outside_becomes_an_element(out: Path) -> None:
    pages = list(out.rglob("*.html"))
    assert len(pages) == 13
    for page in pages:
        tags = Tags(page.read_text())
        assert tags.scripts == [f"{'../' if page.parent != out else ''}assets/site.js"]
        assert "onerror" not in tags.attributes
        assert "img" not in tags.names
        assert "\x1b" not in page.read_text()
    assert (out / "data" / "search.js").read_text().isascii()
    assert all((out / url).is_file() for _, url in search_rows(out))


def test_every_link_leads_to_a_file_and_nothing_is_loaded_from_elsewhere(
    out: Path,
) -> None:
    for page in out.rglob("*.html"):
        for link in Tags(page.read_text()).links:
            if link.startswith("https://github.com/iree-org/iree/compare/"):
                continue
            name = re.split("[?#]", link)[0]
            assert (
                link.startswith("data:") or not name or (page.parent / name).is_file()
            ), link
            assert not re.match("(https?:)?//", link)


def test_a_failure_has_its_life_and_its_reproducer(out: Path) -> None:
    page = (out / "failures" / f"{LEGALIZE}.html").read_text()
    for text in (
        "open",
        "2026-01-03",
        nightly_name(3),
        "breaks",
        "input.mlir",
        "module {} // &lt;/script&gt;",
        "0" * 12,
    ):
        assert text in page
    assert ">gone<" in (out / "failures" / f"{SEGFAULT}.html").read_text()


@pytest.mark.parametrize(
    ("issue", "address"),
    [
        ("o/r#7", "https://github.com/o/r/issues/7"),
        (
            "https://ghe.example.com/o/r/issues/7",
            "https://ghe.example.com/o/r/issues/7",
        ),
        ("javascript:alert(1)", None),
        ("javascript://%0aalert(1)", None),
    ],
)
def test_an_issue_is_linked_on_its_server(
    tmp_path: Path, issue: str, address: str | None
) -> None:
    store = NightStore(Home(tmp_path / "home"))
    store.add(night(1, {}, cases=[case_result("a", "F", issue=issue)]), None)
    Site(store, tmp_path / "public").write()
    links = Tags(
        (tmp_path / "public" / "failures" / f"{LEGALIZE}.html").read_text()
    ).links
    assert {
        link
        for link in links
        if ("7" in link and "/o/r/" in link) or "javascript" in link
    } == ({address} if address else set())


def test_the_first_page_begins_with_what_broke_and_what_to_do(tmp_path: Path) -> None:
    store = NightStore(Home(tmp_path / "home"))
    for record in nights({"breaks": "PPF", "crashes": "PPG", "fine": "PPP"}):
        left = StepResult("bisect", "left", reason="the budget is spent")
        done = StepResult("reduce", "done")
        clusters = [
            replace(cluster, steps=[done if cluster.id == LEGALIZE else left])
            for cluster in record.clusters
        ]
        store.add(replace(record, clusters=clusters))
    Site(store, tmp_path / "site").write()
    page = (tmp_path / "site" / "index.html").read_text()
    assert re.search(
        r"<h1><em>2 new failures</em> in IREE 3\.10\.0rc20260103</h1>", page
    )
    verdict = re.search(r'<p class="track bad">(.*?)</p>', page)
    assert verdict
    assert "2 of 3 cases newly fail on" in verdict[1]
    assert "(2 failures)" in verdict[1]
    failures = page.partition('<ul class="failures">')[2].partition("</ul>")[0]
    assert failures.count('<span class="chip new">new</span>') == 2
    assert re.findall('class="button first".*?>(.*?)</button>', failures) == [
        "Copy issue"
    ]


@pytest.mark.parametrize(
    ("known", "button"),
    [
        ({"steps": [StepResult("reduce", "done")]}, "Copy issue"),
        ({"fix": FIX}, "Upgrade to 3.11.0"),
        ({}, "Copy command"),
    ],
)
def test_the_page_of_a_failing_case_begins_with_its_to_do(
    tmp_path: Path, known: dict[str, Any], button: str
) -> None:
    """A case that only passed has no page, and all names lead to the pages."""
    store = NightStore(Home(tmp_path / "home"))
    for record in nights({"breaks": "PPF", "fine": "PPP"}):
        cases = [replace(case, source="recipes/a.yaml") for case in record.cases]
        clusters = [replace(cluster, **known) for cluster in record.clusters]
        store.add(replace(record, cases=cases, clusters=clusters))
    Site(store, tmp_path / "site").write()
    [page] = (tmp_path / "site" / "cases").glob("*.html")
    text = page.read_text().partition("<h1")[2]
    head, _, rest = text.partition("<h2>Nights</h2>")
    assert f">{button}</button>" in head
    assert f"failures/{LEGALIZE}.html" in head
    assert f"recipes/a.yaml --case breaks -t {nightly_name(3)}" in head
    assert f"{nightly_name(1)} to {nightly_name(2)}" in rest
    for name in ("index", f"failures/{LEGALIZE}"):
        linked = (tmp_path / "site" / f"{name}.html").read_text()
        assert f"cases/{page.name}" in linked
    found = dict(search_rows(tmp_path / "site"))
    assert [url for text, url in found.items() if "breaks" in text] == [
        f"cases/{page.name}"
    ]
