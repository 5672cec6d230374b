/* What the words of a program mean is written in fake.py. A build replaces the number in `revision`. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static volatile char revision[] = "REVISION=000";
static char program[65536];

static int at(const char *word, int otherwise) {
  const char *found = strstr(program, word);
  return found ? atoi(found + strlen(word)) : otherwise;
}

int main(int count, char **words) {
  int number = atoi((char *)revision + 9);
  const char *input = 0, *output = 0;
  for (int i = 1; i < count; ++i) {
    if (!strcmp(words[i], "--version"))
      return printf("IREE (https://iree.dev):\n  IREE compiler version 1.%d.0 @ %040d\n", number, number) < 0;
    if (!strcmp(words[i], "--iree-hal-list-target-backends")) return puts("Registered target backends:\n  llvm-cpu") < 0;
    if (!strcmp(words[i], "--help-hidden"))
      return puts("OPTIONS:\n  --iree-hal-target-backends=<string> - Backends.\n"
                  "  --iree-hal-list-target-backends - Lists backends.\n  -o <filename> - Output.") < 0;
    if (strstr(words[i], "nothing"))
      return fprintf(stderr, "iree-compile: Unknown command line argument '%s'.  Try: 'iree-compile --help'\n", words[i]);
    if (!strcmp(words[i], "-o")) output = words[++i];
    else if (words[i][0] != '-') input = words[i];
  }
  FILE *file = input ? fopen(input, "r") : 0;
  if (!file || !fread(program, 1, sizeof program - 1, file)) return 1;
  char *pipe = strstr(program, "hangs ");
  if (pipe) {
    fputs("started", fopen(strtok(pipe + 6, " \n"), "w"));
    fflush(0);
    sleep(60);
  }
  if (at("differs-", 1000) <= number)
    return fputs("p.mlir:1:1: error: failed to legalize operation 'mini.clone' that was explicitly marked illegal\n", stderr);
  if (at("breaks-", 1000) <= number && number < at("fixed-", 1000))
    return fputs("p.mlir:2:1: error: 'mini.func' op uses 286720 bytes of shared memory; exceeded the limit of 65536 bytes",
                 stderr);
  return output && fputs("made", fopen(output, "w")) < 0;
}
