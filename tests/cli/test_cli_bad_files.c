// SPDX-License-Identifier: Apache-2.0
/* `attn run` on files that are broken, disagree or cannot be had: exit status 1, a message that
 * names the file or argument, and outputs that stay as they were. */
#include "array.h"
#include "spawn.h"

#include <math.h>

static float numbers[4096];

static void save_as(const char *name, array_dtype type, const int64_t *dims) {
  array a = { .dtype = type, .data = numbers };
  char err[256];
  for (; dims[a.ndim] >= 0; a.ndim++) a.shape[a.ndim] = dims[a.ndim];
  a.bytes = (size_t)array_count(&a) * array_dtype_size(type);
  assert_true(a.bytes <= sizeof(numbers));
  if (array_save_npy(name, &a, err, sizeof(err))) fail_msg("%s", err);
}
#define DIMS(...) ((const int64_t[]){ __VA_ARGS__, -1 })
#define SAVE(name, ...) save_as(name, ARRAY_F32, DIMS(__VA_ARGS__))

static const char before[] = "an output of before";

static void usual(void) {
  for (int i = 0; i < 4096; i++) numbers[i] = (float)(i % 17) / 16;
  SAVE("q.npy", 2, 4, 3, 8);
  SAVE("k.npy", 2, 2, 5, 8);
  SAVE("v.npy", 2, 2, 5, 8);
  write_bytes("o.npy", before, sizeof(before));
}

/* The run fails, says the word once more in the JSON, and leaves o.npy alone. */
static void refused(int status, const char *word, const char *arguments) {
  char text[sizeof(before) + 64];
  readable_message(fails(status, word, "run -o o.npy %s", arguments)->err);
  const spawned *s = fails(status, word, "run -o o.npy --json %s", arguments);
  if (status == 1) {
    json_t *o = parsed(s);
    const char *error = json_string_value(json_object_get(o, "error"));
    assert_non_null(error);
    if (!strstr(error, word))
      fail_msg("run %s\nthe JSON's error has no \"%s\": %s", arguments, word, error);
    json_decref(o);
  } else {
    assert_string_equal(s->out, "");
  }
  read_text("o.npy", text, sizeof(text));
  assert_string_equal(text, before);
  assert_int_equal(access("o.npy.tmp", F_OK), -1);
}

static void header(const char *name, const char *dictionary, size_t data) {
  unsigned char bytes[1024] = "\x93NUMPY\x01\x00";
  size_t n = strlen(dictionary);
  assert_true(n + data + 10 < sizeof(bytes));
  bytes[8] = (unsigned char)(n & 255), bytes[9] = (unsigned char)(n >> 8);
  memcpy(bytes + 10, dictionary, n);
  write_bytes(name, bytes, 10 + n + data);
}

static void broken_files(void **state) {
  static const struct {
    const char *dictionary;
    size_t data;
  } headers[] = {
    { "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 2, 5, 8), }\n", 639 }, // short
    { "{'descr': '<f4', 'fortran_order': False, 'shape': (1099511627776, 2, 5, 8), }\n", 64 },
    { "{'descr': '<f4', 'fortran_order': False, 'shape': (9223372036854775807, "
      "9223372036854775807), }\n",
      64 },
    { "{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999, 1), }\n", 64 },
    { "{'descr': '<f4', 'fortran_order': False, 'shape': (-2, 2, 5, 8), }\n", 640 },
    { "{'descr': '<c8', 'fortran_order': False, 'shape': (2, 2, 5, 2), }\n", 320 },
    { "{'descr': '<f4', 'fortran_order': Maybe, 'shape': (2, 2), }\n", 16 },
    { "{'descr': '<f4', 'shape': (2, 2), }\n", 16 },
    { "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 2), \n", 16 },
    { "", 16 },
  };
  (void)state;
  usual();
  for (size_t i = 0; i < sizeof(headers) / sizeof(headers[0]); i++) {
    header("bad.npy", headers[i].dictionary, headers[i].data);
    refused(1, "bad.npy", "-q q.npy -k bad.npy -v v.npy");
    refused(1, "bad.npy", "-q q.npy -k k.npy -v v.npy --mask bad.npy");
    refused(1, "bad.npy", "-q q.npy -k k.npy -v v.npy --reference bad.npy");
  }
  write_bytes("bad.npy", "", 0);
  refused(1, "bad.npy", "-q bad.npy -k k.npy -v v.npy");
  write_bytes("bad.npy", "\x93NUMPY\x01\x00\xff\xff", 10);
  refused(1, "bad.npy", "-q bad.npy -k k.npy -v v.npy");
  write_bytes("bad.npy", "\x93NUMPY\x02\x00\xff\xff\xff\xff", 12);
  refused(1, "bad.npy", "-q bad.npy -k k.npy -v v.npy");
  write_bytes("bad.npz", "PK\x03\x04rest", 8);
  refused(1, "bad.npz", "-q bad.npz:q -k k.npy -v v.npy");
  write_bytes("bad.safetensors", "\xff\xff\xff\xff\xff\xff\xff\x7f{}", 10);
  refused(1, "bad.safetensors", "-q bad.safetensors:q -k k.npy -v v.npy");
}

static void absent_files(void **state) {
  (void)state;
  usual();
  refused(1, "none.npy", "-q none.npy -k k.npy -v v.npy");
  refused(1, "none.npy", "-q q.npy -k none.npy -v v.npy");
  refused(1, "none.npy", "-q q.npy -k k.npy -v v.npy --mask none.npy");
  refused(1, "none.npy", "-q q.npy -k k.npy -v v.npy --reference none.npy");
  refused(1, "none.npy", "-q q.npy -k k.npy -v v.npy --kv-len none.npy");
  refused(1, "none.npy", "-q q.npy -k k.npy -v v.npy --past-k none.npy --past-v v.npy");
  refused(1, ".", "-q . -k k.npy -v v.npy"); // a folder
  refused(2, "-v", "-q q.npy -k k.npy");
  refused(2, "-k", "-q q.npy -v v.npy");
  if (geteuid()) { // root may read everything
    SAVE("secret.npy", 2, 4, 3, 8);
    assert_int_equal(chmod("secret.npy", 0), 0);
    refused(1, "secret.npy", "-q secret.npy -k k.npy -v v.npy");
  }
}

/* A name that is no UTF-8 still gives a JSON object. */
static void names_of_any_bytes(void **state) {
  (void)state;
  json_t *o = parsed(fails(1, "none.npy", "run --json -q $(printf '\\377')none.npy -k k -v v"));
  assert_string_equal(json_string_value(json_object_get(o, "error")),
                      "-q: ?none.npy: cannot open: No such file or directory");
  json_decref(o);
}

static void disagreeing_tensors(void **state) {
  (void)state;
  usual();
  SAVE("t.npy", 2, 2, 4, 8);
  refused(1, "K (k.npy) has 5 keys, V (t.npy) has 4", "-q q.npy -k k.npy -v t.npy");
  SAVE("t.npy", 2, 1, 5, 8);
  refused(1, "K (k.npy) has 2 heads, V (t.npy) has 1", "-q q.npy -k k.npy -v t.npy");
  SAVE("t.npy", 2, 2, 5, 7);
  refused(1, "head_dim differs: Q (q.npy) has 8, K (t.npy) 7", "-q q.npy -k t.npy -v v.npy");
  SAVE("t.npy", 3, 2, 5, 8);
  refused(1, "Q (q.npy) has 2, K (t.npy) 3, V (t.npy) 3", "-q q.npy -k t.npy -v t.npy");
  SAVE("t.npy", 2, 3, 5, 8);
  refused(1, "heads", "-q q.npy -k t.npy -v t.npy");
  SAVE("t.npy", 2, 2, 5, 0);
  refused(1, "head_dim", "-q t.npy -k t.npy -v t.npy");
  SAVE("t.npy", 8);
  refused(1, "1 dimensions", "-q t.npy -k k.npy -v v.npy");
  SAVE("t.npy", 1, 2, 2, 5, 8);
  refused(1, "5 dimensions", "-q q.npy -k t.npy -v v.npy");
  SAVE("t.npy", 2, 3, 32);
  refused(1, "--heads", "-q t.npy -k t.npy -v t.npy");
  refused(1, "32", "-q t.npy -k t.npy -v t.npy --heads 5");
  refused(1, "--heads says 8", "-q q.npy -k k.npy -v v.npy --heads 8");
  save_as("t.npy", ARRAY_F64, DIMS(2, 2, 5, 8));
  refused(1, "V (t.npy) holds f64", "-q q.npy -k k.npy -v t.npy");
  save_as("t.npy", ARRAY_I32, DIMS(2, 2, 5, 8));
  refused(1, "i32", "-q q.npy -k k.npy -v t.npy");
  save_as("t.npy", ARRAY_U16, DIMS(2, 4, 3, 8));
  refused(1, "--dtype bf16", "-q t.npy -k k.npy -v v.npy");
  save_as("t.npy", ARRAY_I8, DIMS(2, 2, 5, 8));
  refused(1, "--kv-dtype int8", "-q q.npy -k t.npy -v t.npy");
  refused(1, "scale", "-q q.npy -k t.npy -v t.npy --kv-dtype int8");
  SAVE("s.npy", 19);
  refused(1, "--k-scale holds 19 numbers, not 20",
          "-q q.npy -k t.npy -v t.npy --kv-dtype int8 --k-scale s.npy --v-scale s.npy");
  refused(1, "bf16", "-q q.npy -k k.npy -v v.npy --dtype bf16");
}

static void disagreeing_options(void **state) {
  (void)state;
  usual();
  SAVE("m.npy", 3, 4);
  SAVE("a.npy", 3);
  save_as("t.npy", ARRAY_I32, DIMS(3, 2));
#define QKV "-q q.npy -k k.npy -v v.npy "
  SAVE("wide.npy", 3, 6);
  refused(1, "seq_kv", QKV "--mask wide.npy");
  SAVE("tall.npy", 4, 5);
  refused(1, "seq_q", QKV "--mask tall.npy");
  save_as("m.npy", ARRAY_I32, DIMS(3, 5));
  refused(1, "the mask holds i32", QKV "--mask m.npy");
  save_as("m.npy", ARRAY_U8, DIMS(3, 5));
  refused(1, "the mask holds u8", QKV "--mask m.npy");
  save_as("m.npy", ARRAY_F64, DIMS(3, 5));
  refused(1, "the mask holds f64", QKV "--mask m.npy");
  SAVE("m.npy", 1, 2, 4, 3, 5);
  refused(1, "5 dimensions", QKV "--mask m.npy");
  refused(1, "--alibi holds 3 numbers, not 4", QKV "--alibi a.npy");
  refused(1, "--sinks holds 3 numbers, not 4", QKV "--sinks a.npy");
  refused(1, "--q-scale", QKV "--q-scale a.npy");
  refused(1, "--kv-len", QKV "--kv-len 1,2,3");
  refused(1, "kv_len", QKV "--kv-len 5,6");
  refused(1, "kv_len", QKV "--kv-len=5,-1");
  refused(2, "--kv-len", QKV "--kv-len 5,,5");
  refused(2, "--kv-len", QKV "--kv-len 5,99999999999");
  refused(1, "--kv-len holds f32", QKV "--kv-len a.npy");
  refused(1, "packed", QKV "--cu-seqlens 0,3");
  refused(1, "--block-table", "-q q.npy -k k.npy -v v.npy --block-table t.npy");
  SAVE("p.npy", 2, 2, 4, 7);
  refused(1, "--past-k", QKV "--past-k p.npy --past-v v.npy");
  refused(2, "--past-v", QKV "--past-k k.npy");
  refused(2, "--present-k", QKV "--present-k pk.npy");
  refused(2, "--past-k", QKV "--past-k k.npy --past-v v.npy --cu-seqlens 0,3");
  refused(2, "--weights-out", QKV "--weights probs");
  refused(2, "--weights", QKV "--weights-out w.npy");
  SAVE("r.npy", 2, 4, 3, 7);
  refused(1, "(r.npy) has the shape [2, 4, 3, 7], the output [2, 4, 3, 8]",
          QKV "--reference r.npy");
  save_as("r.npy", ARRAY_I32, DIMS(2, 4, 3, 8));
  refused(1, "--reference (r.npy) holds i32", QKV "--reference r.npy");
  numbers[5] = NAN;
  SAVE("r.npy", 2, 4, 3, 8);
  refused(1, "NaN", QKV "--reference r.npy");
  refused(1, "tolerance 0.5", QKV "--reference r.npy --tolerance 0.5");
  usual();
  refused(2, "--seq", QKV "--seq 5");
  refused(2, "--batch", QKV "--batch=2");
  refused(2, "--varlen", QKV "--varlen 5:5");
  refused(2, "--page-size", QKV "--page-size 16");
  refused(2, "--tolerance", QKV "--tolerance 0.1");
  refused(2, "scale", QKV "--scale nan");
  refused(2, "dropout", QKV "--dropout 1");
  refused(2, "softcap", QKV "--softcap -1");
  refused(2, "heads", QKV "--heads 9:2");
  refused(2, "strided", QKV "--layout strided");
  refused(1, "cudnn", QKV "--backend cudnn --strict");
  refused(1, "budget", QKV "--memory-budget 1");
}

static void packed_and_paged(void **state) {
  (void)state;
  usual();
  SAVE("q.npy", 7, 4, 8);
  SAVE("k.npy", 7, 2, 8);
  SAVE("v.npy", 7, 2, 8);
  succeeds("run " QKV "--cu-seqlens 0,3,7");
  refused(1, "cu_seqlens", QKV "--cu-seqlens 0,3,8");
  refused(1, "cu_seqlens", QKV "--cu-seqlens 0,5,3,7");
  refused(1, "cu_seqlens", QKV "--cu-seqlens 1,7");
  refused(1, "cu_seqlens", QKV "--cu-seqlens=-2,7");
  refused(1, "--cu-seqlens", QKV "--cu-seqlens '0,3,7;0,7'");
  SAVE("q.npy", 600, 1, 4); // a list of any length is read to its end
  SAVE("k.npy", 600, 1, 4);
  SAVE("v.npy", 600, 1, 4);
  assert_non_null(
      strstr(succeeds("run " QKV "--json --cu-seqlens $(seq -s, 0 600)")->out, "--batch 600 "));
  SAVE("q.npy", 1, 4, 3, 8);
  SAVE("k.npy", 3, 4, 2, 8);
  SAVE("v.npy", 3, 4, 2, 8);
  succeeds("run " QKV "--block-table 0,2");
  refused(1, "block_table", QKV "--block-table 0,3");
  refused(1, "block_table", QKV "--block-table=-1,0");
}

static void unwritable_outputs(void **state) {
  (void)state;
  usual();
  fails(1, "missing/o.npy", "run " QKV "-o missing/o.npy");
  refused(1, "missing/l.npy", QKV "--lse missing/l.npy");
  fails(1, "regular", "run " QKV "-o /dev/full");
  succeeds("run " QKV "-o new.npy");
  succeeds("run " QKV "-o ./o.npy");
  assert_int_equal(access("new.npy", R_OK), 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(broken_files),        cmocka_unit_test(absent_files),
    cmocka_unit_test(names_of_any_bytes),  cmocka_unit_test(disagreeing_tensors),
    cmocka_unit_test(disagreeing_options), cmocka_unit_test(packed_and_paged),
    cmocka_unit_test(unwritable_outputs),
  };
  return cmocka_run_group_tests(tests, spawn_setup, spawn_teardown);
}
