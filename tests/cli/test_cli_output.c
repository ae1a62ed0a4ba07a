// SPDX-License-Identifier: Apache-2.0
/* What info, select, bench and verify print: the JSON keys that callers rely on, and text for
 * people. */
#include <math.h>

#include "attn/hardware.h"
#include "spawn.h"

static void each(const json_t *list, size_t least, const char *const *keys) {
  assert_true(json_is_array(list));
  assert_true(json_array_size(list) >= least);
  for (size_t i = 0; i < json_array_size(list); i++) has_keys(json_array_get(list, i), keys);
}

static const char *text_of(const json_t *o, const char *key) {
  const char *text = json_string_value(json_object_get(o, key));
  assert_non_null(text);
  return text;
}

static double number_of(const json_t *o, const char *key) {
  const json_t *v = json_object_get(o, key);
  assert_true(json_is_number(v));
  return json_number_value(v);
}

static void info(void **state) {
  static const char *const keys[] = { "version:s", "devices:a", "kernels:a", "wisdom", NULL };
  static const char *const device_keys[] = { "device:s",
                                             "source:s",
                                             "name:S",
                                             "arch:S",
                                             "compute_capability:S",
                                             "compute_units:N",
                                             "memory_total_bytes:N",
                                             "memory_available_bytes:N",
                                             "bandwidth_gbps:N",
                                             "clock_ghz:N",
                                             "tensor_cores:B",
                                             "f16:B",
                                             "bf16:B",
                                             "f8:B",
                                             "peak_f32_gflops:N",
                                             "peak_f16_gflops:N",
                                             "peak_bf16_gflops:N",
                                             "peak_f8_gflops:N",
                                             "shared_memory_bytes:N",
                                             "l1_bytes:N",
                                             "l2_bytes:N",
                                             "l3_bytes:N",
                                             "cudnn_version:N",
                                             "unified_memory:B",
                                             "cores_total:N",
                                             "numa_nodes:N",
                                             "cache_line_bytes:N",
                                             "isa_flags:a",
                                             "notes:s",
                                             NULL };
  static const char *const kernel_keys[] = { "isa:s", "supported:b", "selfcheck:s", "reason:s",
                                             NULL };
  (void)state;
  json_t *o = parsed(succeeds("info --json"));
  has_keys(o, keys);
  each(json_object_get(o, "devices"), 1, device_keys);
  each(json_object_get(o, "kernels"), 1, kernel_keys);
  assert_string_equal(text_of(json_array_get(json_object_get(o, "devices"), 0), "device"), "cpu");
  assert_string_equal(text_of(json_array_get(json_object_get(o, "kernels"), 0), "selfcheck"), "ok");
  json_decref(o);
  o = parsed(succeeds("info --profiles --json"));
  each(json_object_get(o, "profiles"), 30, device_keys);
  const json_t *p;
  size_t i;
  json_array_foreach(json_object_get(o, "profiles"), i, p)
      readable(succeeds("info --hw %s", text_of(p, "name"))->out);
  json_decref(o);
  readable(succeeds("info --profiles")->out);
  const spawned *s = succeeds("info");
  readable(s->out);
  assert_non_null(strstr(s->out, "in use"));
  s = succeeds("info --isa scalar");
  assert_non_null(strstr(s->out, "scalar             self-check ok, in use"));
  o = parsed(succeeds("info --hw a100 --json"));
  assert_string_equal(
      text_of(json_array_get(json_object_get(o, "devices"), 0), "compute_capability"), "8.0");
  json_decref(o);
}

static void environment(void **state) {
  static const char *const names[] = { "ATTN_BACKEND", "ATTN_ISA", "ATTN_NUM_THREADS" };
  static const char *const arguments[] = { "info", "select --seq 8 --dim 8",
                                           "select --seq 8 --dim 8 --json",
                                           "bench --seq 8 --dim 8 --no-limits --json" };
  (void)state;
  for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
    setenv(names[i], "foo", 1);
    for (size_t k = 0; k < sizeof(arguments) / sizeof(arguments[0]); k++) {
      fails(1, names[i], "%s", arguments[k]);
      fails(1, "foo", "%s", arguments[k]);
    }
    unsetenv(names[i]);
  }
  setenv("ATTN_BACKEND", "math", 1), setenv("ATTN_ISA", "scalar", 1);
  json_t *o = parsed(succeeds("select --seq 8 --dim 8 --json"));
  assert_string_equal(text_of(o, "implementation"), "math/cpu/scalar");
  json_decref(o);
  assert_non_null(strstr(succeeds("info")->out, "scalar             self-check ok, in use"));
  unsetenv("ATTN_BACKEND"), unsetenv("ATTN_ISA");
}

static const char *const select_keys[] = { "backend:s",          "implementation:s",
                                           "device:s",           "source:s",
                                           "confidence:n",       "expected_time_ms:N",
                                           "expected_speedup:N", "expected_memory_bytes:i",
                                           "workspace_bytes:i",  "flops:n",
                                           "reason:s",           "alternatives:a",
                                           "rejected:a",         "shape:s",
                                           "hardware:s",         NULL };
static const char *const alternative_keys[] = { "backend:s",         "implementation:s",
                                                "score:n",           "expected_time_ms:N",
                                                "workspace_bytes:i", NULL };
static const char *const rejected_keys[] = { "backend:s", "implementation:s", "reasons:a", NULL };
static const char *const reason_keys[] = { "code:s", "value:N", "limit:N", "text:s", NULL };

static void check_rejections(const json_t *o) {
  const json_t *list = json_object_get(o, "rejected");
  each(list, 1, rejected_keys);
  for (size_t i = 0; i < json_array_size(list); i++)
    each(json_object_get(json_array_get(list, i), "reasons"), 1, reason_keys);
}

/* The JSON of a selection that succeeds, its every key checked; the text is checked as well. */
static json_t *selected(const char *arguments) {
  const spawned *s = succeeds("select %s", arguments);
  readable(s->out);
  assert_null(strstr(s->out, "nan"));
  assert_non_null(strstr(s->out, "ranking"));
  json_t *o = parsed(succeeds("select %s --json", arguments));
  has_keys(o, select_keys);
  each(json_object_get(o, "alternatives"), 0, alternative_keys);
  check_rejections(o);
  assert_true(number_of(o, "flops") > 0);
  return o;
}

static void selections(void **state) {
  static const char *const hardware[] = {
    "", "--hw a100", "--hw h100-sxm", "--hw mi300x", "--hw rtx-4090", "--hw t4"
  };
  static const char *const shapes[] = {
    "--heads 32:8 --seq 1:8192 --dim 128 --dtype f16 --causal br",
    "--batch 2 --heads 16 --seq 2048 --dim 64",
    "--seq 64 --dim 64 --dtype bf16 --mask bool --softcap 30 --alibi",
    "'b1 hq32 hkv8 sq1 skv8192 d128'",
  };
  (void)state;
  for (size_t h = 0; h < sizeof(hardware) / sizeof(hardware[0]); h++)
    for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
      char arguments[256];
      snprintf(arguments, sizeof(arguments), "%s %s", shapes[i], hardware[h]);
      json_decref(selected(arguments));
    }
  json_t *o = selected("--heads 32:8 --seq 1:8192 --dim 128 --dtype f16 --causal br --hw a100");
  assert_string_equal(text_of(o, "backend"), "flash_decode");
  assert_string_equal(text_of(o, "device"), "cuda");
  assert_true(number_of(o, "expected_speedup") >= 4);
  json_decref(o);
  o = selected("--seq 128 --dim 64 --debug");
  assert_string_equal(text_of(o, "backend"), "math");
  json_decref(o);
  o = selected("--seq 128 --dim 64 --backend memory_efficient --disable flash --objective "
               "throughput --threads 1");
  assert_string_equal(text_of(o, "backend"), "memory_efficient");
  json_decref(o);
  o = selected(
      "--seq 1024 --dim 64 --memory-budget 1MiB --flash-min-seq 64 --deterministic --isa scalar");
  assert_true(number_of(o, "workspace_bytes") <= 1048576);
  json_decref(o);
}

static void write_profile(const char *path, const attn_capability *c) {
  char text[4096];
  int n = attn_capability_format(c, text, sizeof(text));
  assert_in_range(n, 1, sizeof(text) - 1);
  write_bytes(path, text, (size_t)n);
}

static void profile_file(void **state) {
  attn_capability c;
  (void)state;
  assert_int_equal(attn_profile_find("a100", &c), ATTN_OK);
  snprintf(c.name, sizeof(c.name), "my-own-card");
  write_profile("own.profile", &c);
  json_t *o = selected("--heads 32 --seq 4096 --dim 128 --dtype f16 --hw own.profile");
  assert_string_equal(text_of(o, "hardware"), "my-own-card");
  json_decref(o);
  assert_non_null(strstr(succeeds("info --hw ./own.profile")->out, "my-own-card"));
  /* A device of which nothing is known but that it is there: times are unknown, not invented. */
  attn_capability bare = { .device = c.device, .compute_major = 8 };
  snprintf(bare.name, sizeof(bare.name), "bare");
  write_profile("bare.profile", &bare);
  o = selected("--heads 32 --seq 4096 --dim 128 --dtype f16 --hw bare.profile");
  assert_true(json_is_null(json_object_get(o, "expected_time_ms")));
  json_decref(o);
  assert_non_null(
      strstr(succeeds("select --seq 64 --dim 64 --dtype f16 --hw bare.profile")->out, "unknown"));
  write_bytes("broken.profile", "no profile\n", 11);
  fails(2, "broken.profile", "select --seq 64 --dim 64 --hw broken.profile");
}

static void failing_selections(void **state) {
  static const struct {
    const char *arguments, *word;
  } cases[] = {
    { "--seq 128 --dim 64 --backend cudnn --strict", "cudnn" },
    { "--seq 128 --dim 64 --memory-budget 1", "budget" },
    { "--seq 4096 --dim 64 --dtype f16 --hw a100 --memory-budget 1", "budget" },
  };
  (void)state;
  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
    const spawned *s = fails(1, cases[i].word, "select %s", cases[i].arguments);
    readable(s->out);
    assert_non_null(strstr(s->out, "rejected"));
    json_t *o = parsed(fails(1, cases[i].word, "select %s --json", cases[i].arguments));
    assert_non_null(strstr(text_of(o, "error"), cases[i].word));
    assert_true(json_is_null(json_object_get(o, "backend")));
    assert_true(json_is_null(json_object_get(o, "implementation")));
    has_keys(o, (const char *const[]){ "shape:s", "hardware:s", NULL });
    check_rejections(o);
    json_decref(o);
  }
}

static const char *const bench_keys[] = { "implementation:s",  "shape:s", "threads:i", "time_ms:n",
                                          "gflops:n",          "gbps:n",  "limit:S",   "share:N",
                                          "workspace_bytes:i", NULL };
#define QUICK "--repeat 1 --min-time 0 "

static void bench(void **state) {
  static const char *const limit_keys[] = { "threads:i", "fma_gflops:n", "bf16_gflops:N",
                                            "read_gbps:n", NULL };
  (void)state;
  json_t *o = parsed(succeeds("bench --heads 2 --seq 8:16 --dim 8 --threads 1 " QUICK "--json"));
  each(json_object_get(o, "limits"), 1, limit_keys);
  each(json_object_get(o, "results"), 1, bench_keys);
  const json_t *r = json_array_get(json_object_get(o, "results"), 0);
  const char *limit = text_of(r, "limit");
  assert_true(!strcmp(limit, "fma") || !strcmp(limit, "read"));
  assert_true(number_of(r, "share") > 0);
  json_decref(o);

  const spawned *s =
      succeeds("bench --heads 2 --seq 8:16 --dim 8 --backend all --no-limits " QUICK);
  readable(s->out);
  assert_non_null(strstr(s->out, "math/cpu"));
  assert_non_null(strstr(s->out, "cudnn/cuda: there is no cuda device"));
  assert_string_equal(s->err, ""); // progress is for terminals
  o = parsed(succeeds("bench '--seq 8 --dim 8' '--heads 2 --seq 1:9 --dim 4 --causal br' --seq 7 "
                      "--dim 5 --threads 1,2 "
                      "--isa scalar --backend flash --no-limits " QUICK "--json"));
  each(json_object_get(o, "results"), 6, bench_keys);
  assert_int_equal(json_array_size(json_object_get(o, "results")), 6);
  assert_int_equal(json_array_size(json_object_get(o, "limits")), 0);
  r = json_array_get(json_object_get(o, "results"), 5);
  assert_int_equal(number_of(r, "threads"), 2);
  assert_true(json_is_null(json_object_get(r, "limit")));
  json_decref(o);

  s = fails(1, "nothing could run", "bench --seq 8 --dim 8 --backend cudnn --no-limits");
  readable(s->out);
  o = parsed(
      fails(1, "nothing could run", "bench --seq 8 --dim 8 --backend cudnn --no-limits --json"));
  assert_non_null(json_object_get(o, "error"));
  json_decref(o);
}

static void bench_features(void **state) {
  static const char *const shapes[] = {
    "--heads 4:2 --seq 5:9 --dim 8:6 --mask bool --lse --causal tl",
    "--heads 4:2 --seq 5:9 --dim 8 --mask f16 --alibi --sinks --window 3:1 --softcap 5",
    "--batch 2 --heads 4 --seq 5:8 --dim 8 --page-size 4 --num-pages 3 --pages-per-seq 2",
    "--batch 2 --heads 4 --seq 5:8 --dim 8 --kv-lengths",
    "--batch 3 --heads 4 --seq 5:9 --dim 8 --varlen 11:20",
    "--heads 2 --seq 5:9 --dim 32 --kv-dtype int8",
    "--heads 2 --seq 5:9 --dim 32 --dtype bf16 --weights probs",
    "--heads 2 --seq 0:9 --dim 8",
    "--heads 2 --seq 5:0 --dim 8",
  };
  (void)state;
  for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
    const spawned *s = succeeds("bench %s --no-limits " QUICK, shapes[i]);
    readable(s->out);
    assert_null(strstr(s->out, "nan"));
    assert_null(strstr(s->out, "inf"));
  }
}

/* More than any machine's memory is refused before any of it is taken. */
static void bench_of_too_much(void **state) {
  (void)state;
  fails(1, "the device has",
        "bench --batch 100000 --heads 160 --seq 131072 --dim 64 --no-limits --backend all");
}

static void bench_files(void **state) {
  static const char shapes[] = "# shapes\n\n--seq 8 --dim 8\n  b1 hq2 sq1 skv9 d4   # decode\n";
  static const char wrong[] = "--seq 8 --dim 8\n--seq 8 --dime 8\n";
  char text[8192];
  (void)state;
  write_bytes("shapes.txt", shapes, sizeof(shapes) - 1);
  write_bytes("wrong.txt", wrong, sizeof(wrong) - 1);
  json_t *o =
      parsed(succeeds("bench --file shapes.txt --no-limits --plot plot.svg " QUICK "--json"));
  assert_int_equal(json_array_size(json_object_get(o, "results")), 2);
  json_decref(o);
  read_text("plot.svg", text, sizeof(text));
  assert_int_equal(strncmp(text, "<svg ", 5), 0);
  assert_string_equal(text + strlen(text) - 7, "</svg>\n");
  int open = 0; // every element is closed
  for (const char *p = text; (p = strchr(p, '<')); p++) {
    const char *end = strchr(p, '>');
    assert_non_null(end);
    open += p[1] == '/' ? -1 : end[-1] == '/' ? 0 : 1;
    assert_true(open >= 0);
  }
  assert_int_equal(open, 0);
  fails(1, "wrong.txt line 2", "bench --file wrong.txt --no-limits");
  fails(1, "--dime", "bench --file wrong.txt --no-limits");
  fails(1, "none.txt", "bench --file none.txt --no-limits");
  fails(1, "line 1: longer than",
        "bench --file long.txt --no-limits $(printf '%%5000s' '--seq 8' "
        ">long.txt)");
  fails(1, "missing/", "bench --file shapes.txt --no-limits --plot missing/plot.svg");
  fails(1, "nothing", "bench --seq 8 --dim 8 --backend cudnn --no-limits --plot plot.svg");
  assert_int_equal(access("plot.svg.tmp", F_OK), -1);
}

static void verify(void **state) {
  static const char *const keys[] = { "implementation:s", "shape:s", "max_error:n",
                                      "bound:n",          "ok:b",    NULL };
  (void)state;
  const spawned *s = succeeds("verify --count 3 --max-seq 20");
  readable(s->out);
  assert_non_null(strstr(s->out, "\nok: "));
  json_t *o = parsed(succeeds("verify --heads 4:2 --seq 5:9 --dim 8 '--seq 3 --dim 5' --json"));
  each(o, 4, keys);
  json_decref(o);
}

static void full_output(void **state) {
  static const char *const commands[] = { "--help",
                                          "--version",
                                          "info",
                                          "info --json",
                                          "info --profiles",
                                          "select --help",
                                          "select --seq 8 --dim 8",
                                          "select --seq 8 --dim 8 --json",
                                          "bench --seq 8 --dim 8 --no-limits " QUICK,
                                          "bench --seq 8 --dim 8 --no-limits " QUICK "--json",
                                          "verify --count 1",
                                          "verify --seq 8 --dim 8 --json" };
  (void)state;
  if (access("/dev/full", W_OK)) skip();
  for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++)
    fails(1, "standard output could not be written", "%s >/dev/full", commands[i]);
}

int main(void) {
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(info),
    cmocka_unit_test(environment),
    cmocka_unit_test(selections),
    cmocka_unit_test(profile_file),
    cmocka_unit_test(failing_selections),
    cmocka_unit_test(bench),
    cmocka_unit_test(bench_features),
    cmocka_unit_test(bench_of_too_much),
    cmocka_unit_test(bench_files),
    cmocka_unit_test(verify),
    cmocka_unit_test(full_output),
  };
  return cmocka_run_group_tests(tests, spawn_setup, spawn_teardown);
}
