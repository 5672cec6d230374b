"""The answer as text, JSON and a page."""

from __future__ import annotations

from dataclasses import replace

from rich.console import Console

from tests.bisect.history_of import case_named, failure
from triage.attribute.ir_reader import PassName
from triage.attribute.result import Attribution, ComparedRun, ComparisonResult, Difference, Excerpt, PartedAt, PhaseComparison
from triage.model.outcome import Compiled, Failed, Measured, Probe
from triage.model.revision import Revision
from triage.report.attribution import attribution_blocks, attribution_json
from triage.report.attribution_page import attribution_page

CASE = case_named("case")
GOOD = Probe(CASE, Revision("3.2.0"), "3.2.0", Compiled(), Measured(), cached=False)
BAD = Probe(CASE, Revision("3.3.0"), "3.3.0", Failed(failure("F")), Measured(), cached=False)
TILE = PassName("TilePass", "t-tile")
EVIL = '<script>alert("x")</script>'
PARTED = Attribution(
    CASE,
    GOOD,
    BAD,
    ComparisonResult.PARTED,
    failing=PassName("CheckPass"),
    function=("kernel", "kernel"),
    lasting=PartedAt(
        ComparedRun(None, TILE),
        "kernel",
        (Difference("t.copy", "1", "3"),),
        (Difference("config.tiles", "[4]", "[8]"),),
        Excerpt((f"t.call {EVIL}", "t.end"), ("t.other", "t.end")),
        ("lib/Tile.cpp",),
    ),
    first=PartedAt(ComparedRun(PassName("FusePass"), PassName("FusePass")), None),
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
        for block in attribution_blocks(found):
            console.print(block)
    return captured.get()


def test_the_text_says_what_parted_and_what_it_rests_on() -> None:
    text = text_of(PARTED)
    assert "case parts after TilePass: 3.2.0 and 3.3.0 are not the same again" in text
    assert "on 3.2.0 it does not run here, or changes nothing" in text
    assert "config.tiles: [4] -> [8]" in text
    assert "t.copy 1 -> 3" in text
    assert "FusePass (later passes undo this difference)" in text
    assert "stream is the first whose output differs in meaning" in text
    assert "1024 bytes on 3.2.0, without bound on 3.3.0" in text
    assert "lib/Tile.cpp" in text
    assert "a note" in text
    assert "2 | 3" in text
    assert "2 | -" in text


def test_the_page_escapes_what_compilers_print_and_needs_nothing_else() -> None:
    page = attribution_page(PARTED)
    assert EVIL not in page
    assert "&lt;script&gt;" in page
    for outside in ("http://", "https://", "src=", "href=", "@import", "url("):
        assert outside not in page


def test_the_json_has_the_suspects() -> None:
    told = attribution_json(PARTED)
    assert told["status"] == "parted"
    assert told["pass"]["on"] == "bad"
    assert told["suspect_passes"] == ["TilePass"]
    assert told["suspect_files"] == ["lib/Tile.cpp"]
    assert told["first_phase"] == "stream"
    assert told["failing_pass"] == "CheckPass"


def test_a_pass_that_chooses_otherwise_is_suspected_as_well() -> None:
    found = replace(PARTED, decided=PartedAt(ComparedRun(PassName("ChoosePass"), PassName("ChoosePass")), "kernel"))
    assert found.passes == ("TilePass", "ChoosePass")
    assert "then" in text_of(found)


def test_each_other_finding_has_its_sentence() -> None:
    none = replace(PARTED, lasting=None, first=None, phases=())
    assert "is the same on 3.2.0 and 3.3.0 up to CheckPass" in text_of(replace(none, finding=ComparisonResult.FAILING))
    assert "the step that fails, which is no pass" in text_of(replace(none, finding=ComparisonResult.FAILING, failing=None))
    assert "after every pass" in text_of(replace(none, finding=ComparisonResult.SAME))
    assert "cannot be compared: why" in text_of(replace(none, finding=ComparisonResult.INCONCLUSIVE, reason="why"))
    assert replace(none, finding=ComparisonResult.FAILING).passes == ("CheckPass",)
    assert replace(none, finding=ComparisonResult.SAME).passes == ()


def test_the_phase_of_the_suspected_pass_is_known() -> None:
    collapse = PassName("CollapseDimensionsPass", "iree-dispatch-creation-collapse-dimensions")
    at = PartedAt(ComparedRun(None, collapse), None)
    assert replace(PARTED, lasting=at).phase == "dispatch-creation"
    assert replace(PARTED, finding=ComparisonResult.SAME, lasting=None).phase is None


def test_a_narrow_terminal_gets_both_columns() -> None:
    assert "t.other" in text_of(PARTED, 60)
