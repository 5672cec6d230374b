"""Commands and options that earlier versions had, with what replaces each."""

from __future__ import annotations

_NOTIFY = "read exit code and nightly.json in the CI job, or use `triage issues sync`"

REMOVED_COMMANDS = {
    "watch": "progress is printed on the terminal, and the finished night is in nightly.json",
    "open": "use `triage site --open`",
    "evidence": "results are shared by TRIAGE_EVIDENCE; a damaged cache is set aside by itself",
    "nights compare": "use `triage nightly -t REV -b REV`, or read the site",
    "nights import": "keep the home's nights folder, or join shards with `triage nightly merge`",
}
_EVERYWHERE = {
    "--after-result": "an interrupted --fresh continues without it",
    "--notify": _NOTIFY,
    "--quarantine": "write an `expect` entry with `issue:` in the recipe",
    "--costs": "each shard has every N-th case",
    "--spare": "nothing replaces it",
    "--import-log": "`triage bisect --interactive --resume` keeps its verdicts",
    "--export-log": "`triage bisect --interactive --resume` keeps its verdicts",
    "--model-repo": "use --model DIR@GOOD..BAD",
    "--model-good": "use --model DIR@GOOD..BAD",
    "--model-bad": "use --model DIR@GOOD..BAD",
    "--attribute": "passes are always compared where that helps",
    "--no-attribute": "passes are always compared where that helps",
}
_TIMES = {"--function": "use --metric run_seconds:FUNCTION", "--time": "each probe is measured for at most 60 s"}
_FAMILY = {"--family": "write the family before the revision, such as FAMILY:3.2.0"}
_OF_COMMAND = {
    "attribute": _TIMES | {"--jobs": "one compile per core runs at once"},
    "remedy": _TIMES | {"--run": "`triage bench` measures a program with the remedy's flags"},
    "history": {"--share": "half of all compiles are spent at most; --every compiles all"},
    "toolchains install": _FAMILY | {"--jobs": "four are installed at once"},
    "toolchains list": {"--family": "write `triage toolchains list FAMILY`"},
    "toolchains info": _FAMILY,
    "bisect": _TIMES
    | {
        "--repeats": "--confidence decides how often a pair is compiled",
        "--worse": "the values at --good and --bad show which are worse",
    },
    "reduce": {
        "--metric": "write a recipe of `compiler: command` whose command fails where the number is too large",
        "--save-other-failures": "`triage classify` names the failures of a log",
        "--slipped": "`triage classify` names the failures of a log",
    },
}


def replacement(command: str, option: str) -> str | None:
    """Return what to use instead of a removed option, such as `--spare` of `bisect`; None for one that never was."""
    own = next((of for name, of in _OF_COMMAND.items() if name.rpartition(" ")[2] == command), {})
    return own.get(option) or _EVERYWHERE.get(option)
