"""A git repository whose commits build a small compiler, written in C, with fixes that
have tests of their own: the small form of `benchmarks.real_commits`.

The compiler, `fold`, evaluates programs of postfix words such as `3 4 + 7 =`, and fails
for a word that it does not know or where two values differ. A word is added or fixed
with its test. Between them lie commits that only change notes, tune the stack, or do
not build. One change is reverted, and applied again.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from tests.git_history.history import History

PROJECT = """name: fold
compiler: command
build:
  commands:
    - make -C "$TRIAGE_BUILD" -f "$TRIAGE_SOURCE/Makefile" SOURCE="$TRIAGE_SOURCE"
    - cp "$TRIAGE_BUILD/fold" "$TRIAGE_OUT"
paths: ["*.c", "*.h", Makefile]
"""
RECIPE = """name: fold
summary: A test of the small compiler
compiler: command
command: ["{toolchain}/fold", "{input}"]
input: test.fold
"""
TESTS = "tests/*.fold"
_MAIN = r"""#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "words.h"

long stack[STACK], depth;

long pop(void) {
  if (!depth) { fprintf(stderr, "error: the stack is empty\n"); exit(1); }
  return stack[--depth];
}

void push(long value) {
  if (depth == STACK) { fprintf(stderr, "error: the stack is full\n"); exit(1); }
  stack[depth++] = value;
}

int main(int count, char **names) {
  char word[64], *end;
  FILE *program = count > 1 ? fopen(names[1], "r") : 0;
  if (!program) return fprintf(stderr, "error: no program\n"), 2;
  while (fscanf(program, "%63s", word) == 1) {
    long value = strtol(word, &end, 10);
    if (!*end) push(value);
    else if (!apply(word)) return fprintf(stderr, "error: unknown word '%s'\n", word), 1;
  }
  return 0;
}
"""
_MAKEFILE = """fold: main.o words.o
	$(CC) -o $@ $^
%.o: $(SOURCE)/%.c $(SOURCE)/words.h
	$(CC) -O0 -c -o $@ $<
"""
_HEADER = """#define STACK {size}
long pop(void);
void push(long value);
int apply(const char *word);
"""
_WORDS_C = r"""#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "words.h"

int apply(const char *word) {
  long b = pop(), a = pop();
  if (!strcmp(word, "=") && a != b) {
    fprintf(stderr, "error: expected %ld, got %ld\n", b, a);
    exit(1);
  }
  if (!strcmp(word, "=")) return 1;
WORDS  return 0;
}
"""
# For each word: what it pushes, a test, and what it pushes wrongly until it is fixed.
_WORDS = {
    "+": ("a + b", "3 4 + 7 =", None),
    "-": ("a - b", "7 4 - 3 =", "b - a"),
    "*": ("a * b", "3 4 * 12 =", None),
    "/": ("a / b", "12 4 / 3 =", None),
    "mod": ("(a % b + b) % b", "-7 3 mod 2 =", "a % b"),
    "min": ("a < b ? a : b", "3 4 min 3 =", None),
    "max": ("a > b ? a : b", "3 4 max 4 =", "a"),
    "and": ("a & b", "6 3 and 2 =", None),
    "or": ("a | b", "6 3 or 7 =", "a + b"),
    "xor": ("a ^ b", "6 3 xor 5 =", None),
    "less": ("a < b", "3 3 less 0 =", "a <= b"),
    "shift": ("a << b", "3 2 shift 12 =", None),
    "nand": ("~(a & b)", "6 3 nand -3 =", "!(a & b)"),
    "near": ("labs(a - b) < 2", "3 4 near 1 =", "a - b < 2 && a > b"),
}
_BROKEN_AFTER, _REVERTED_AFTER = "min", "xor"


@dataclass
class _Sources:
    """What the next commit has, and the number of commits so far."""

    history: History
    values: dict[str, str] = field(default_factory=dict)
    stack: int = 64
    notes: int = 0
    builds: bool = True

    def commit(self, subject: str, test: str = "") -> None:
        """Commit the sources, and a test if there is one."""
        words = "".join(map(_word, self.values, self.values.values()))
        files: dict[str, str | bytes] = {
            "Makefile": _MAKEFILE,
            "main.c": _MAIN,
            "words.h": _HEADER.format(size=self.stack),
            "words.c": _WORDS_C.replace("WORDS", words if self.builds else words + "}"),
            "docs/notes.txt": f"{self.notes}\n",
        }
        if test:
            files[f"tests/{len(self.values)}-{self.history.count}.fold"] = f"{test}\n"
        self.history.commit(subject, files)

    def fill(self, count: int) -> None:
        """Commit changes of the notes and of the stack."""
        for _ in range(count):
            if self.history.count % 3:
                self.stack += 8
                self.commit("Tune the stack")
            else:
                self.notes += 1
                self.commit("Extend the notes")


def begin(path: Path) -> None:
    """Write the repository into a new folder."""
    sources = _Sources(History.begin(path))
    for word, (_, _, wrong) in _WORDS.items():
        if wrong:
            sources.values[word] = wrong
    sources.commit("Begin")
    for word, (value, test, wrong) in _WORDS.items():
        sources.values[word] = value
        sources.commit(f"Fix the result of {word}" if wrong else f"Add {word}", test)
        sources.fill(3)
        if word == _BROKEN_AFTER:
            sources.builds = False
            sources.fill(5)
            sources.builds = True
            sources.commit("Repair the build")
        if word == _REVERTED_AFTER:
            for subject, size in (("Halve", -32), ("Revert", 32), ("Halve", -32)):
                sources.stack += size
                sources.commit(f"{subject} the stack")
                sources.notes += 1
                sources.commit("Extend the notes")


def _word(word: str, value: str) -> str:
    return f'  if (!strcmp(word, "{word}")) return push({value}), 1;\n'
