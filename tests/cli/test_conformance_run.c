// SPDX-License-Identifier: Apache-2.0
/* The published cases through `attn run`: its options say all that they need. */
#include "spawn.h"

#include <math.h>

#include "array.h"
#include "attn/attn.h"

static bool has(const char *folder, const char *name) {
  char path[1024];
  snprintf(path, sizeof(path), "%s/%s.npy", folder, name);
  return access(path, R_OK) == 0;
}

static void add(char *line, size_t size, const char *format, ...) __attribute__((format(printf, 3, 4)));
static void add(char *line, size_t size, const char *format, ...) {
  size_t at = strlen(line);
  va_list args;
  va_start(args, format);
  vsnprintf(line + at, size - at, format, args);
  va_end(args);
}

static int64_t shape_of(const char *folder, const char *name, int dim) {
  char path[1024], err[256];
  array a;
  snprintf(path, sizeof(path), "%s/%s.npy", folder, name);
  if (array_load(path, &a, err, sizeof(err))) fail_msg("%s", err);
  int64_t n = dim < 0 ? a.ndim : a.shape[dim];
  array_release(&a);
  return n;
}

/* `attn run` for the case, outputs in the current folder. */
static void command_line(const char *folder, const json_t *attributes, char *line, size_t size) {
  static const char *const weights[] = { "scores", "capped", "masked", "probs" };
  json_t *v;
  bool past = has(folder, "past_key"), lengths = has(folder, "nonpad_kv_seqlen");
  snprintf(line, size, "run -q '%s/Q.npy' -k '%s/K.npy' -v '%s/V.npy' -o Y.npy --repeat 0", folder, folder, folder);
  if ((v = json_object_get(attributes, "q_num_heads")))
    add(line, size, " --heads %lld:%lld", json_integer_value(v),
        json_integer_value(json_object_get(attributes, "kv_num_heads")));
  if ((v = json_object_get(attributes, "scale"))) add(line, size, " --scale %.9g", json_number_value(v));
  if ((v = json_object_get(attributes, "softcap"))) add(line, size, " --softcap %.9g", json_number_value(v));
  if (has(folder, "attn_mask")) add(line, size, " --mask '%s/attn_mask.npy'", folder);
  if (lengths) add(line, size, " --kv-len '%s/nonpad_kv_seqlen.npy'", folder);
  if (past)
    add(line, size, " --past-k '%s/past_key.npy' --past-v '%s/past_value.npy' --present-k present_key.npy"
        " --present-v present_value.npy", folder, folder);
  if (json_integer_value(json_object_get(attributes, "is_causal"))) {
    if (past) add(line, size, " --causal %lld", (long long)shape_of(folder, "past_key", 2));
    else add(line, size, " --causal %s", lengths ? "br" : "tl");
  }
  if (has(folder, "qk_matmul_output"))
    add(line, size, " --weights %s --weights-out qk_matmul_output.npy",
        weights[json_integer_value(json_object_get(attributes, "qk_matmul_output_mode")) & 3]);
}

static attn_dtype dtype_of(const array *a) {
  return a->dtype == ARRAY_F16 ? ATTN_F16 : ATTN_F32;
}

/* The file that the run wrote against the case's; the expectation's type gives the tolerance. */
static void compare(const char *folder, const char *name) {
  char path[1024], err[256];
  array want, got;
  snprintf(path, sizeof(path), "%s/%s.npy", folder, name);
  if (array_load(path, &want, err, sizeof(err))) fail_msg("%s", err);
  snprintf(path, sizeof(path), "%s.npy", name);
  if (array_load(path, &got, err, sizeof(err))) fail_msg("%s", err);
  assert_int_equal(array_count(&got), array_count(&want));
  double tolerance = want.dtype == ARRAY_F16 ? 2e-3 : 1e-5;
  for (int64_t i = 0; i < array_count(&want); i++) {
    double a = attn_dtype_load(dtype_of(&got), got.data, i), b = attn_dtype_load(dtype_of(&want), want.data, i);
    bool same = a == b || fabs(a - b) <= tolerance * (1 + fabs(b));
    if (!same) fail_msg("%s: %s[%lld] is %g, expected %g", folder, name, (long long)i, a, b);
  }
  array_release(&want);
  array_release(&got);
}

static void run_case(const char *folder) {
  static const char *const outputs[] = { "Y", "present_key", "present_value", "qk_matmul_output" };
  char path[1024], line[8192];
  json_error_t error;
  snprintf(path, sizeof(path), "%s/case.json", folder);
  json_t *root = json_load_file(path, 0, &error);
  if (!root) fail_msg("%s: %s", path, error.text);
  command_line(folder, json_object_get(root, "attributes"), line, sizeof(line));
  json_decref(root);
  succeeds("%s", line);
  for (int i = 0; i < 4; i++)
    if (has(folder, outputs[i])) compare(folder, outputs[i]);
}

static void test_published_cases_through_attn_run(void **state) {
  (void)state;
  DIR *d = opendir(CONFORMANCE_CASES);
  assert_non_null(d);
  int count = 0;
  for (struct dirent *e; (e = readdir(d));) {
    char folder[900];
    if (e->d_name[0] == '.') continue;
    snprintf(folder, sizeof(folder), "%s/%s", CONFORMANCE_CASES, e->d_name);
    run_case(folder);
    count++;
  }
  closedir(d);
  print_message("%d cases\n", count);
  assert_true(count >= 57);
}

int main(void) {
  const struct CMUnitTest tests[] = { cmocka_unit_test(test_published_cases_through_attn_run) };
  return cmocka_run_group_tests(tests, spawn_setup, spawn_teardown);
}
