// SPDX-License-Identifier: Apache-2.0
/* The command as a program: exit statuses, messages, widths, and the JSON keys that callers rely
 * on. */
#include "cli.h"
#include "spawn.h"

static const char *const commands[] = { "info", "select", "run", "bench", "verify", "regret" };
enum { COMMANDS = sizeof(commands) / sizeof(commands[0]) };

static void help_and_version(void **state) {
  (void)state;
  for (int i = 0; i < COMMANDS; i++) {
    static const char *const forms[] = { "%s --help", "%s -h", "help %s", "%s --heads 8 --help" };
    for (size_t f = 0; f < sizeof(forms) / sizeof(forms[0]); f++) {
      char arguments[64];
      const char *form = forms[f];
      snprintf(arguments, sizeof(arguments), "%.*s%s%s", (int)(strchr(form, '%') - form), form,
               commands[i], strchr(form, '%') + 2);
      const spawned *s = succeeds("%s", arguments);
      readable(s->out);
      assert_non_null(strstr(s->out, "usage: attn "));
      assert_non_null(strstr(s->out, commands[i]));
      assert_string_equal(s->err, "");
    }
    const spawned *s = succeeds("--help");
    readable(s->out);
    assert_non_null(strstr(s->out, commands[i]));
  }
  assert_non_null(strstr(succeeds("help")->out, "Exit status"));
  assert_non_null(strstr(succeeds("--version")->out, "attn 0."));
}

static void unknown_words(void **state) {
  (void)state;
  assert_string_equal(fails(2, "usage", " ")->out, "");
  fails(2, "frobnicate", "frobnicate");
  fails(2, "info, select, run", "frobnicate");
  fails(2, "frobnicate", "help frobnicate");
  for (int i = 0; i < COMMANDS; i++) {
    const spawned *s = fails(2, "--frobnicate", "%s --frobnicate", commands[i]);
    readable_message(s->err);
    assert_string_equal(s->out, "");
    assert_non_null(strstr(s->err, commands[i]));
    fails(2, "-z", "%s -z", commands[i]);
    fails(2, "qudnn", "%s --backend qudnn", commands[i]);
    fails(2, "math", "%s --backend qudnn", commands[i]); // the names there are
    fails(2, "qudnn", "%s --disable qudnn", commands[i]);
    fails(2, "auto", "%s --disable auto", commands[i]);
    fails(2, "avx1024", "%s --isa avx1024", commands[i]);
    fails(2, "z9000", "%s --hw z9000", commands[i]);
    fails(2, "no/such.profile", "%s --hw no/such.profile", commands[i]);
    fails(2, "fastest", "%s --objective fastest", commands[i]);
  }
  fails(2, "f17", "select --seq 8 --dim 8 --dtype f17");
  fails(2, "f17", "select --seq 8 --dim 8 --kv-dtype f17");
  fails(2, "upwards", "select --seq 8 --dim 8 --causal=upwards");
  fails(2, "ternary", "select --seq 8 --dim 8 --mask ternary");
  fails(2, "everything", "verify --features everything");
}

/* Every option a message may offer is one that there is. */
static void nearest_option(void **state) {
  static const struct {
    const char *arguments, *nearest;
  } cases[] = {
    { "select --sq 8 --dim 8", "--seq" },
    { "select --caussal=br", "--causal" },
    { "select --jsno", "--json" },
    { "run --qury q.npy", "--query" },
    { "run --refrence r.npy", "--reference" },
    { "bench --bakend all", "--backend" },
    { "bench --min_time 1", "--min-time" },
    { "info --profile", "--profiles" },
    { "verify --memory-buget 1K", "--memory-budget" },
  };
  (void)state;
  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
    char line[128];
    snprintf(line, sizeof(line), "the nearest is %s\n", cases[i].nearest);
    fails(2, line, "%s", cases[i].arguments);
  }
  assert_null(strstr(fails(2, "--frobnicate", "run --frobnicate")->err, "nearest"));
  assert_null(strstr(fails(2, "-z", "run -z")->err, "nearest"));
  for (int i = 0; cli_shape_option(i); i++) {
    attn_problem p = { 0 };
    int used = 0;
    attn_status status = attn_problem_option(&p, cli_shape_option(i), NULL, &used);
    if (!status && !used) fail_msg("%s is no SHAPE option", cli_shape_option(i));
  }
  for (int i = 0; cli_common_option(i); i++) {
    char bare[32];
    snprintf(bare, sizeof(bare), "%.*s", (int)strcspn(cli_common_option(i), " "),
             cli_common_option(i));
    assert_null(strstr(attn("select %s --seq 8", bare)->err, "unknown option"));
  }
}

static void missing_and_malformed_values(void **state) {
  static const char *const valued[] = { "--threads", "--hw",  "--objective",     "--backend",
                                        "--disable", "--isa", "--memory-budget", "--flash-min-seq",
                                        "--seq",     "--dim" };
  static const struct {
    const char *arguments, *word;
  } cases[] = {
    { "select --seq x --dim 8", "\"x\"" },
    { "select --seq 8:9:10 --dim 8", "8:9:10" },
    { "select --seq 8 --dim 8.5", "8.5" },
    { "select --seq 8 --dim ''", "--dim" },
    { "select --seq -8 --dim 8", "-8" },
    { "select --seq 8 --dim 0", "head_dim" },
    { "select --seq 8", "dim" },
    { "select --dim 8", "seq" },
    { "select", "seq" },
    { "select --seq 99999999999999999999 --dim 8", "99999999999999999999" },
    { "select --batch 4000000000 --heads 4000000000 --seq 4000000000 --dim 8", "63" },
    { "select --heads 9:2 --seq 8 --dim 8", "heads" },
    { "select --seq 8 --dim 8 --dropout 1", "dropout" },
    { "select --seq 8 --dim 8 --dropout -0.5", "dropout" },
    { "select --seq 8 --dim 8 --scale nan", "scale" },
    { "select --seq 8 --dim 8 --softcap -1", "softcap" },
    { "select --seq 8 --dim 8 --window 3", "window" },
    { "select --seq 8 --dim 8 --threads two", "two" },
    { "select --seq 8 --dim 8 --threads -1", "-1" },
    { "select --seq 8 --dim 8 --threads 5000", "5000" },
    { "select --seq 8 --dim 8 --threads ,", "--threads" },
    { "select --seq 8 --dim 8 --memory-budget 3XB", "3XB" },
    { "select --seq 8 --dim 8 --memory-budget -3", "-3" },
    { "select --seq 8 --dim 8 --flash-min-seq -3", "-3" },
    { "select --seq 8 --dim 8 --json=yes", "--json" },
    { "select --seq 8 --dim 8 --threads 1,2", "--threads" },
    { "select --seq 8 --dim 8 --backend all", "all" },
    { "select --seq 8 --dim 8 --isa all", "all" },
    { "select wrong words", "wrong" },
    { "select --seq 8 \"$(printf '%9000s' '--dim 8')\"", "longer than" },
    { "bench", "SHAPE" },
    { "bench \"--seq 8\"", "dim" },
    { "bench --seq 8 --dim 8 --repeat 0", "--repeat" },
    { "bench --seq 8 --dim 8 --repeat 1e3", "1e3" },
    { "bench --seq 8 --dim 8 --min-time -1", "--min-time" },
    { "bench --seq 8 --dim 8 --min-time nan", "--min-time" },
    { "bench --seq 8 --dim 8 --min-time 1s", "1s" },
    { "bench --seq 8 --dim 8 --hw a100", "--hw" },
    { "verify --count 0", "--count" },
    { "verify --count x", "\"x\"" },
    { "verify --hw a100", "--hw" },
    { "run --hw a100", "--hw" },
    { "run", "-q" },
    { "run stray", "stray" },
    { "run --repeat -1", "--repeat" },
    { "run --tolerance nan", "--tolerance" },
    { "run --tolerance -1", "--tolerance" },
    { "run --backend all", "all" },
    { "run --threads 1,2", "--threads" },
    { "info stray", "no problem" },
    { "info --seq 8", "no problem" },
  };
  (void)state;
  for (size_t i = 0; i < sizeof(valued) / sizeof(valued[0]); i++) {
    fails(2, valued[i], "select %s", valued[i]);
    fails(2, valued[i], "bench %s", valued[i]);
  }
  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
    const spawned *s = fails(2, cases[i].word, "%s", cases[i].arguments);
    readable_message(s->err);
    assert_string_equal(s->out, "");
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(help_and_version),
    cmocka_unit_test(unknown_words),
    cmocka_unit_test(nearest_option),
    cmocka_unit_test(missing_and_malformed_values),
  };
  return cmocka_run_group_tests(tests, spawn_setup, spawn_teardown);
}
