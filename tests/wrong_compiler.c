/* An iree-compile that compiles another program than it is given: it negates where the program inverts, and drops the sign
   where it negates. -DREAL names the compiler that it starts. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static char program[1 << 20], changed[1 << 21];

static void replace(const char *word, const char *other) {
  char *end = changed;
  const char *rest = program, *found;
  for (; (found = strstr(rest, word)); rest = found + strlen(word))
    end += sprintf(end, "%.*s%s", (int)(found - rest), rest, other);
  strcpy(end, rest);
}

int main(int count, char **words) {
  for (int i = 1; i < count; ++i) {
    size_t length = strlen(words[i]);
    if (length < 5 || strcmp(words[i] + length - 5, ".mlir")) continue;
    FILE *source = fopen(words[i], "r"), *target = fopen("changed.mlir", "w");
    if (!source || !target || !fread(program, 1, sizeof program - 1, source)) return 1;
    if (strstr(program, "stablehlo.not")) replace("stablehlo.not", "stablehlo.negate");
    else replace("stablehlo.negate", strstr(program, "complex") ? "stablehlo.sine" : "stablehlo.abs");
    fputs(changed, target);
    fclose(target);
    words[i] = "changed.mlir";
  }
  words[0] = REAL;
  execv(REAL, words);
  return 1;
}
