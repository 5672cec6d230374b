/* A compiler of a few lines that answers as iree-compile does. fake_releases.py says what the words of a program mean.
   A build replaces the number in `revision`, a release also the version, the log and the pace. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static volatile char revision[] = "REVISION=000";
static volatile char version[40] = "VERSION=";
static volatile char log_path[400] = "LOG=";
static volatile char pace[] = "PACE=0";
static char program[1 << 20];
static const char *help =
    "OVERVIEW: IREE compilation driver\n\nOPTIONS:\n"
    "  --compile-to=<value>  - Compilation phase to run up until before emitting output.\n"
    "    =input              -   Performs input processing.\n"
    "    =executable-targets -   Compiles up to the targets.\n"
    "    =end                -   Complete the full compilation pipeline.\n"
    "  --iree-hal-target-backends=<string> - Target backends for executable compilation.\n"
    "  --iree-hal-list-target-backends - Lists all registered target backends.\n"
    "  --iree-hip-target=<string> - The chip.\n"
    "  --mlir-print-op-on-diagnostic - Print the operation on a diagnostic.\n"
    "  --mlir-print-ir-after-failure - Print IR after a pass that failed.\n"
    "  -o <filename> - Output.\n";

static void record(const char *event, const char *what, unsigned long hash) {
  if (!log_path[4]) return;
  char line[200];
  int length = snprintf(line, sizeof line, "%s %s %016lx %s %d\n", event, (char *)version + 8, hash, what, (int)getpid());
  int file = open((char *)log_path + 4, O_WRONLY | O_CREAT | O_APPEND, 0666);
  if (write(file, line, length) != length) exit(3);
  close(file);
}

static void ask_to_end(int number) { (void)number; record("term", "main", 0); }

static int at(const char *word, int otherwise) {
  const char *found = strstr(program, word);
  return found ? atoi(found + strlen(word)) : otherwise;
}

int main(int count, char **words) {
  int number = atoi((char *)revision + 9), code = 0;
  const char *input = 0, *output = 0, *what = "main";
  for (int i = 1; i < count; ++i) {
    const char *word = words[i];
    if (!strcmp(word, "--version")) {
      printf("IREE (https://iree.dev):\n  IREE compiler version ");
      return printf(version[8] ? "%2$s @ %1$040d\n" : "1.%1$d.0 @ %1$040d\n", number, (char *)version + 8) < 0;
    }
    if (!strcmp(word, "--help-hidden")) return fputs(help, stdout) < 0;
    if (!strcmp(word, "--iree-hal-list-target-backends"))
      return puts("Registered target backends:\n  llvm-cpu\n  rocm") < 0;
    if (strstr(word, "nothing"))
      return fprintf(stderr, "iree-compile: Unknown command line argument '%s'.  Try: 'iree-compile --help'\n", word);
    if (!strcmp(word, "-o")) output = words[++i];
    else if (word[0] != '-') input = word;
    else if (!strncmp(word, "--mlir-print-ir-after-failure", 29) || !strncmp(word, "--mlir-pass-pipeline", 20)) what = "name";
  }
  FILE *file = input ? fopen(input, "r") : 0;
  if (!file || !fread(program, 1, sizeof program - 1, file)) return 1;
  unsigned long hash = 1469598103934665603ul;
  for (char *c = program; *c; ++c) hash = (hash ^ (unsigned char)*c) * 1099511628211ul;
  if (strstr(program, "stubborn")) signal(SIGTERM, ask_to_end);
  record("start", what, hash);
  char *pipe = strstr(program, "hangs /");
  if (pipe) {
    fputs("started", fopen(strtok(pipe + 6, " \n"), "w"));
    fflush(0);
  }
  while (strstr(program, "hangs")) sleep(60);
  if (number >= at("sleeps-", 1000)) sleep(60);
  if (number >= at("crashes-", 1000)) raise(SIGSEGV);
  char *flag = strstr(program, "flips /");
  if (flag) {
    flag = strtok(flag + 6, " \n");
    if (unlink(flag)) fclose(fopen(flag, "w"));
    else return fputs("p.mlir:1:1: error: failed to flip\n", stderr) >= 0;
  }
  if (pace[5] > '0') usleep(50000 + hash % 100000);
  if ((unsigned char)program[0] > 127 || !program[1])
    code = fputs("p.mlir:1:1: error: unexpected character\n", stderr);
  else if (number < at("read-from-", 0) ||
           (strstr(program, "unreadable-") ? at("unreadable-", 1000) <= number : strstr(program, "unreadable") != NULL))
    code = fputs("p.mlir:1:1: error: custom op 'unreadable' is unknown (tried 'func.unreadable' as well)\n", stderr);
  else if (at("differs-", 1000) <= number && number < at("fixed-", 1000))
    code = fputs("p.mlir:1:1: error: failed to legalize operation 'mini.clone' that was explicitly marked illegal\n", stderr);
  else if (at("breaks-", 1000) <= number && number < at("fixed-", 1000))
    code = fputs("p.mlir:2:1: error: 'mini.func' op uses 286720 bytes of shared memory; exceeded the limit of 65536 bytes\n",
                 stderr);
  else if (output && number < at("silent-", 1000))
    code = fputs("made", fopen(output, "w")) < 0;
  record("end", what, hash);
  return code != 0;
}
