"""A repository with release branches, as Triton names them: `release/3.1.x` with the
tag `v3.1.0`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from tests.git_history.history import History


@dataclass
class Releases:
    """`shas`: by the number of the change on the main line, or the name of a commit of
    a branch.
    """

    history: History
    shas: dict[int | str, str] = field(default_factory=dict)

    @classmethod
    def begin(cls, path: Path) -> Releases:
        """Main has the changes 0 to 19. 3.1.0 left it after 4, and has a revert; 3.2.0
        left it after 12, with a cherry-pick and a commit of its own.
        """
        made = cls(History.begin(path))
        stream = "".join(map(_change, range(20)))
        git, shas = made.history.git, made.shas
        git("fast-import", "--quiet", data=stream.encode())
        shas |= dict(enumerate(git("rev-list", "--reverse", "main").split()))
        made.branch("3.1.x", 4)
        shas["revert"] = made.history.commit(
            'Revert "Change 3 (#103)"', {"part3.cpp": "int part;\n"}
        )
        git("tag", "-a", "-m", "3.1.0", "v3.1.0")
        made.branch("3.2.x", 12)
        git("cherry-pick", shas[14])
        made.history.write("part14.cpp", "int part = 14; // here\n")
        git("commit", "--quiet", "--all", "--amend", "--no-edit")
        shas["changed"] = made.history.head()
        shas["own"] = made.history.commit(
            "Set the version to 3.2.0 (#132)", {"setup.py": "version = '3.2.0'\n"}
        )
        git("tag", "v3.2.0")
        git("switch", "--quiet", "main")
        return made

    def branch(self, name: str, number: int) -> None:
        self.history.git(
            "switch", "--quiet", "--create", f"release/{name}", self.shas[number]
        )


def _change(number: int) -> str:
    """A change of the main line, for `git fast-import`. It touches a file of its own."""
    subject, text = f"Change {number} (#{100 + number})", f"int part = {number};\n"
    # from 2025-06-01 on, a day apart
    who = f"A <a@example.org> {1_748_779_200 + 86_400 * number} +0000"
    lines = [
        "commit refs/heads/main",
        f"author {who}",
        f"committer {who}",
        f"data {len(subject)}",
        subject,
    ]
    return "\n".join(
        [*lines, f"M 100644 inline part{number}.cpp", f"data {len(text)}", text, ""]
    )
