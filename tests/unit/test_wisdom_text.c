// SPDX-License-Identifier: Apache-2.0
/* Text of wisdom files: it reads back as it was written, whatever is damaged costs its own line
 * alone and is noticed, and what is no wisdom or of a later format is told from it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "random.h"
#include "wisdom/internal.h"

enum { ENTRIES = 6 };

static const core_allocator *memory(void) {
  static core_allocator a;
  a = core_allocator_default();
  return &a;
}

static wisdom_entry entry(int i) {
  static const char *const shapes[] = { "--heads 4 --seq 512 --dim 64", "--seq 1:8192 --dim 128" };
  wisdom_entry e = { .machine = 0x1234u + (uint64_t)(i / 4),
                     .version = 1u << 10,
                     .when = 1700000000000000000 + i,
                     .number = 1.5e-3 / (i + 1),
                     .subject = "flash/cpu/avx512",
                     .text = shapes[i % 2],
                     .threads = 2,
                     .kind = WISDOM_TIME };
  if (i % 3 == 1)
    e.kind = WISDOM_VALUE, e.subject = "machine", e.text = "peak_f32", e.number = -2.75e11,
    e.threads = 0;
  if (i % 3 == 2)
    e = (wisdom_entry){
      .kind = WISDOM_MACHINE, .machine = e.machine, .subject = "", .text = "cpu x"
    };
  return e;
}

static wisdom_store sample(void) {
  wisdom_store s;
  wisdom_store_init(&s, memory());
  for (int i = 0; i < ENTRIES; i++) {
    wisdom_entry e = entry(i);
    assert_true(wisdom_store_add(&s, &e, false));
  }
  assert_int_equal(s.count, ENTRIES);
  return s;
}

static wisdom_text text_of(const wisdom_store *s) {
  wisdom_text t;
  assert_true(wisdom_text_write(s, memory(), &t));
  assert_int_equal(strlen(t.bytes), t.length);
  return t;
}

static attn_wisdom_file read(wisdom_store *s, const char *text, size_t length) {
  attn_wisdom_file file = { .path = "" };
  char *copy = malloc(length ? length : 1); // so that reading past the end is noticed
  memcpy(copy, text, length);
  wisdom_store_init(s, memory());
  assert_true(wisdom_text_read(s, copy, length, NULL, NULL, false, &file));
  free(copy);
  return file;
}

/* Entries of `whole` that `s` lacks; `s` may hold nothing else. */
static int missing(const wisdom_store *whole, const wisdom_store *s) {
  for (int i = 0; i < s->count; i++) {
    const wisdom_entry *e = wisdom_store_find(whole, &s->entries[i]);
    assert_non_null(e);
    assert_true(e->number == s->entries[i].number && e->when == s->entries[i].when);
  }
  return whole->count - s->count;
}

static void test_round_trip(void **unused) {
  (void)unused;
  wisdom_store s = sample(), back;
  wisdom_text t = text_of(&s);
  attn_wisdom_file file = read(&back, t.bytes, t.length);
  assert_int_equal(file.state, ATTN_WISDOM_READ);
  assert_int_equal(file.lines, ENTRIES);
  assert_int_equal(file.damaged + file.unknown, 0);
  assert_int_equal(missing(&s, &back), 0);
  wisdom_text again = text_of(&back);
  assert_string_equal(t.bytes, again.bytes);
  free(again.bytes);
  // Files that follow each other in one are a file.
  char *twice = malloc(2 * t.length);
  memcpy(twice, t.bytes, t.length);
  memcpy(twice + t.length, t.bytes, t.length);
  wisdom_store_free(&back);
  assert_int_equal(read(&back, twice, 2 * t.length).state, ATTN_WISDOM_READ);
  assert_int_equal(missing(&s, &back), 0);
  wisdom_store_free(&back);
  free(twice);
  free(t.bytes);
  wisdom_store_free(&s);
}

static void test_numbers_keep_every_bit(void **unused) {
  (void)unused;
  uint64_t rng = 11;
  wisdom_store s, back;
  wisdom_store_init(&s, memory());
  for (int i = 0; i < 300; i++) {
    char key[16];
    uint64_t bits = random_next(&rng);
    wisdom_entry e = entry(1);
    memcpy(&e.number, &bits, sizeof(bits));
    if (!(e.number - e.number == 0)) continue; // NaN, infinity
    snprintf(key, sizeof(key), "k%d", i);
    e.text = key;
    assert_true(wisdom_store_add(&s, &e, false));
  }
  wisdom_text t = text_of(&s);
  assert_int_equal(read(&back, t.bytes, t.length).state, ATTN_WISDOM_READ);
  assert_int_equal(missing(&s, &back), 0);
  free(t.bytes);
  wisdom_store_free(&s);
  wisdom_store_free(&back);
}

/* One byte changed to each of some others: at most one entry is lost, and it is said. */
static void test_damage_costs_one_line(void **unused) {
  (void)unused;
  static const unsigned char changes[] = { 0x01, 0x20, 0x80, 0xff, '\n' };
  wisdom_store s = sample(), back;
  wisdom_text t = text_of(&s);
  for (size_t at = 0; at < t.length; at++)
    for (size_t c = 0; c < sizeof(changes); c++) {
      char kept = t.bytes[at];
      t.bytes[at] = (char)(c < 4 ? (unsigned char)kept ^ changes[c] : changes[c]);
      if (t.bytes[at] == kept) continue;
      attn_wisdom_file file = read(&back, t.bytes, t.length);
      assert_int_equal(file.state, ATTN_WISDOM_DAMAGED);
      assert_true(file.damaged > 0);
      assert_true(missing(&s, &back) <= 1);
      wisdom_store_free(&back);
      t.bytes[at] = kept;
    }
  free(t.bytes);
  wisdom_store_free(&s);
}

/* A byte more or less somewhere is no different. */
static void test_shifts_cost_one_line(void **unused) {
  (void)unused;
  wisdom_store s = sample(), back;
  wisdom_text t = text_of(&s);
  char *changed = malloc(t.length + 1);
  for (size_t at = 0; at < t.length; at++) {
    memcpy(changed, t.bytes, at);
    memcpy(changed + at, t.bytes + at + 1, t.length - at - 1);
    attn_wisdom_file file = read(&back, changed, t.length - 1);
    // Without its last newline the text is whole; without another two lines may be joined.
    assert_true(at + 1 == t.length || file.state == ATTN_WISDOM_DAMAGED);
    assert_true(missing(&s, &back) <= 2);
    wisdom_store_free(&back);
    changed[at] = 'x';
    memcpy(changed + at + 1, t.bytes + at, t.length - at);
    file = read(&back, changed, t.length + 1);
    assert_int_equal(file.state, ATTN_WISDOM_DAMAGED);
    assert_true(missing(&s, &back) <= 1);
    wisdom_store_free(&back);
  }
  free(changed);
  free(t.bytes);
  wisdom_store_free(&s);
}

static void test_truncation_costs_what_is_missing(void **unused) {
  (void)unused;
  wisdom_store s = sample(), back;
  wisdom_text t = text_of(&s);
  for (size_t length = 0; length < t.length; length++) {
    attn_wisdom_file file = read(&back, t.bytes, length);
    int lines = 0;
    for (size_t i = 0; i < length; i++) lines += t.bytes[i] == '\n';
    if (length && length < t.length - 1) assert_int_equal(file.state, ATTN_WISDOM_DAMAGED);
    assert_true(back.count >= lines - 1);
    missing(&s, &back);
    wisdom_store_free(&back);
  }
  free(t.bytes);
  wisdom_store_free(&s);
}

/* Several kinds of harm at once, many times: no crash, nothing invented. */
static void test_random_damage_invents_nothing(void **unused) {
  (void)unused;
  uint64_t rng = 7;
  wisdom_store s = sample(), back;
  wisdom_text t = text_of(&s);
  char *changed = malloc(2 * t.length);
  for (int round = 0; round < 3000; round++) {
    size_t length = t.length;
    memcpy(changed, t.bytes, length);
    for (int k = (int)random_int(&rng, 0, 5); k >= 0; k--) {
      size_t at = (size_t)random_int(&rng, 0, (int64_t)length - 1),
             n = (size_t)random_int(&rng, 1, 40);
      if (n > length - at) n = length - at;
      if (k % 2)
        memmove(changed + at, t.bytes + random_int(&rng, 0, (int64_t)(t.length - n) - 1), n);
      else
        for (size_t i = 0; i < n; i++) changed[at + i] = (char)random_next(&rng);
    }
    read(&back, changed, length);
    missing(&s, &back);
    wisdom_store_free(&back);
  }
  free(changed);
  free(t.bytes);
  wisdom_store_free(&s);
}

static void expect(const char *text, size_t length, attn_wisdom_state state) {
  wisdom_store back;
  attn_wisdom_file file = read(&back, text, length);
  if (file.state != state) fail_msg("\"%.40s\" is %s", text, attn_wisdom_state_name(file.state));
  assert_int_equal(back.count, 0);
  wisdom_store_free(&back);
}

static void test_other_files_are_told_apart(void **unused) {
  (void)unused;
  char text[128], zeros[4096] = { 0 };
  int n = snprintf(text, sizeof(text), "attn-wisdom 2");
  n += snprintf(text + n, sizeof(text) - (size_t)n, " #%08x\nanything at all\n",
                wisdom_crc(0, text, (size_t)n));
  expect(text, (size_t)n, ATTN_WISDOM_FUTURE);
  expect("", 0, ATTN_WISDOM_READ);
  expect("attn-wis", 8, ATTN_WISDOM_DAMAGED); // the beginning of one
  expect("x", 1, ATTN_WISDOM_FOREIGN);
  expect("\n", 1, ATTN_WISDOM_FOREIGN);
  expect("attn-profile 1\nname x\n", 22, ATTN_WISDOM_FOREIGN);
  expect("\x7f"
         "ELF\2\1\1\0\0\0",
         10, ATTN_WISDOM_FOREIGN);
  expect(zeros, sizeof(zeros), ATTN_WISDOM_FOREIGN);
}

/* Lines whose checksum is right and that say what no line of this version may. */
static void test_fields_are_checked(void **unused) {
  (void)unused;
  static const char *const bad[] = {
    "time 0000000000000000 0.1.0 1 1 flash/cpu 1e-3 --seq 8 --dim 8",
    "time 000000000000001 0.1.0 1 1 flash/cpu 1e-3 --seq 8 --dim 8",
    "time 000000000000000A 0.1.0 1 1 flash/cpu 1e-3 --seq 8 --dim 8",
    "time 0000000000000001 0.1 1 1 flash/cpu 1e-3 --seq 8 --dim 8",
    "time 0000000000000001 0.1.2000 1 1 flash/cpu 1e-3 --seq 8 --dim 8",
    "time 0000000000000001 0.1.0 -1 1 flash/cpu 1e-3 --seq 8 --dim 8",
    "time 0000000000000001 0.1.0 99999999999999999999 1 flash/cpu 1e-3 --seq 8 --dim 8",
    "time 0000000000000001 0.1.0 1 0 flash/cpu 1e-3 --seq 8 --dim 8",
    "time 0000000000000001 0.1.0 1 3000000000 flash/cpu 1e-3 --seq 8 --dim 8",
    "time 0000000000000001 0.1.0 1 1 fl\"sh 1e-3 --seq 8 --dim 8",
    "time 0000000000000001 0.1.0 1 1 flash/cpu 0 --seq 8 --dim 8",
    "time 0000000000000001 0.1.0 1 1 flash/cpu -1 --seq 8 --dim 8",
    "time 0000000000000001 0.1.0 1 1 flash/cpu nan --seq 8 --dim 8",
    "time 0000000000000001 0.1.0 1 1 flash/cpu inf --seq 8 --dim 8",
    "time 0000000000000001 0.1.0 1 1 flash/cpu 0x1p3 --seq 8 --dim 8",
    "time 0000000000000001 0.1.0 1 1 flash/cpu 1e-3",
    "time  0000000000000001 0.1.0 1 1 flash/cpu 1e-3 --seq 8",
    "time 0000000000000001 0.1.0 1 1 flash/cpu 1e-3 --seq\t8",
    "value 0000000000000001 0.1.0 1 machine peak 1e999",
    "value 0000000000000001 0.1.0 1 machine peak 1 2",
    "value 0000000000000001 0.1.0 1 machine",
    "machine 0000000000000001",
    "",
  };
  for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
    char line[256];
    wisdom_entry e;
    snprintf(line, sizeof(line), "%s", bad[i]);
    if (wisdom_line_read(line, &e)) fail_msg("taken: %s", bad[i]);
  }
  char line[] = "colour 0000000000000001 blue", good[] = "value 0000000000000001 0.1.0 1 a b -0";
  wisdom_entry e;
  assert_true(wisdom_line_read(line, &e));
  assert_int_equal(e.kind, WISDOM_OTHER);
  assert_true(wisdom_line_read(good, &e));
  assert_int_equal(e.kind, WISDOM_VALUE);
}

/* Lines of kinds that a later version may add are handed on as they are. */
static void test_unknown_kinds_are_kept(void **unused) {
  (void)unused;
  wisdom_store s = sample(), back;
  wisdom_entry e = { .kind = WISDOM_OTHER, .subject = "", .text = "colour 12 of the sky" };
  assert_true(wisdom_store_add(&s, &e, false));
  assert_true(wisdom_store_add(&s, &e, false));
  wisdom_text t = text_of(&s);
  attn_wisdom_file file = read(&back, t.bytes, t.length);
  assert_int_equal(file.state, ATTN_WISDOM_READ);
  assert_int_equal(file.unknown, 1);
  wisdom_text again = text_of(&back);
  assert_string_equal(t.bytes, again.bytes);
  free(t.bytes);
  free(again.bytes);
  wisdom_store_free(&s);
  wisdom_store_free(&back);
}

static void test_crc_is_the_common_one(void **unused) {
  (void)unused;
  assert_int_equal(wisdom_crc(0, "123456789", 9), 0xcbf43926u);
  assert_int_equal(wisdom_crc(wisdom_crc(0, "12345", 5), "6789", 4), 0xcbf43926u);
}

int main(void) {
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_crc_is_the_common_one),
    cmocka_unit_test(test_round_trip),
    cmocka_unit_test(test_numbers_keep_every_bit),
    cmocka_unit_test(test_damage_costs_one_line),
    cmocka_unit_test(test_shifts_cost_one_line),
    cmocka_unit_test(test_truncation_costs_what_is_missing),
    cmocka_unit_test(test_random_damage_invents_nothing),
    cmocka_unit_test(test_other_files_are_told_apart),
    cmocka_unit_test(test_fields_are_checked),
    cmocka_unit_test(test_unknown_kinds_are_kept),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
