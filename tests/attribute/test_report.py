"""Attribution reports: text, JSON and HTML page."""

from __future__ import annotations

from dataclasses import replace

from rich.console import Console

from tests.bisect.letters import case_named, failure
from triage.attribute.result import Attribution, ComparisonResult, Difference, DivergingPass, Excerpt, PhaseComparison
from triage.mlir.ir_reader import PassName
from triage.model.outcome import Compiled, Failed, Measured, Probe
from triage.model.revision import Revision
from triage.report.attribution import AttributionReport, sentence
from triage.report.shapes import as_json

CASE = case_named("case")
GOOD = Probe(CASE, Revision("3.2.0"), "3.2.0", Compiled(), Measured(), cached=False)
BAD = Probe(CASE, Revision("3.3.0"), "3.3.0", Failed(failure("F")), Measured(), cached=False)
TILE = PassName("TilePass", "t-tile")
EVIL = '<script>alert("x")</script>'
DIVERGING = Attribution(
    CASE,
    GOOD,
    BAD,
    ComparisonResult.DIVERGES,
    failing=PassName("CheckPass"),
    function=("kernel", "kernel"),
    persistent=DivergingPass(
        None,
        TILE,
        "kernel",
        (Difference("t.copy", "1", "3"),),
        (Difference("config.tiles", "[4]", "[8]"),),
        Excerpt((f"t.call {EVIL}", "t.end"), ("t.other", "t.end")),
        ("lib/Tile.cpp",),
    ),
    first=DivergingPass(PassName("FusePass"), PassName("FusePass"), None),
    phases=(
        PhaseComparison("flow", {"dispatches": 2}, {"dispatches": 2}, same=True),
        PhaseComparison(
            "stream", {"dispatches": 2}, {"dispatches": 3}, same=False, differences=(Difference(f"t.op : {EVIL}", "0", "1"),)
        ),
        PhaseComparison("targets", {"dispatches": 2}, None, same=None),
    ),
    shared=(1024, 2**63 - 1),
    files=("lib/Tile.cpp",),
    notes=("a note",),
    compiles=4,
)


def text_of(found: Attribution, width: int = 160) -> str:
    console = Console(width=width)
    with console.capture() as captured:
        for block in AttributionReport(found).blocks():
            console.print(block)
    return captured.get()


def test_the_text_has_the_answer_and_the_facts() -> None:
    text = text_of(DIVERGING)
    assert sentence(DIVERGING) == "3.2.0 and 3.3.0 diverge after TilePass"
    assert "TilePass (t-tile)" in text
    assert "config.tiles: [4] -> [8]" in text
    assert "t.copy 1 -> 3" in text
    assert "FusePass" in text
    assert "1024 bytes on 3.2.0" in text
    assert "lib/Tile.cpp" in text
    assert "a note" in text
    assert "2 | 3" in text
    assert "2 | -" in text


def test_the_page_escapes_compiler_output_and_loads_nothing() -> None:
    page = AttributionReport(DIVERGING).html()
    assert EVIL not in page
    assert "&lt;script&gt;" in page
    for outside in ("http://", "https://", "src=", "href=", "@import", "url("):
        assert outside not in page


def test_the_json_has_the_suspects() -> None:
    answer = as_json(AttributionReport(DIVERGING).shape())
    assert answer["status"] == "parted"
    assert answer["pass"]["on"] == "bad"
    assert answer["suspect_passes"] == ["TilePass"]
    assert answer["suspect_files"] == ["lib/Tile.cpp"]
    assert answer["first_phase"] == "stream"
    assert answer["failing_pass"] == "CheckPass"


def test_a_pass_with_other_choices_is_suspected_too() -> None:
    found = replace(DIVERGING, decided=DivergingPass(PassName("ChoosePass"), PassName("ChoosePass"), "kernel"))
    assert found.passes == ("TilePass", "ChoosePass")
    assert "then" in text_of(found)


def test_each_other_status_has_its_sentence() -> None:
    none = replace(DIVERGING, persistent=None, first=None, phases=())
    assert "CheckPass" in sentence(replace(none, status=ComparisonResult.FAILING))
    assert "not a pass" in sentence(replace(none, status=ComparisonResult.FAILING, failing=None))
    assert "same" in sentence(replace(none, status=ComparisonResult.SAME))
    assert "why" in sentence(replace(none, status=ComparisonResult.INCONCLUSIVE, reason="why"))
    assert replace(none, status=ComparisonResult.FAILING).passes == ("CheckPass",)
    assert replace(none, status=ComparisonResult.SAME).passes == ()


def test_the_phase_of_the_suspected_pass_is_known() -> None:
    collapse = PassName("CollapseDimensionsPass", "iree-dispatch-creation-collapse-dimensions")
    at = DivergingPass(None, collapse, None)
    assert replace(DIVERGING, persistent=at).phase == "dispatch-creation"
    assert replace(DIVERGING, status=ComparisonResult.SAME, persistent=None).phase is None


def test_a_narrow_terminal_gets_both_columns() -> None:
    assert "t.other" in text_of(DIVERGING, 60)
