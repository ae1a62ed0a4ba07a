// SPDX-License-Identifier: Apache-2.0
/* Arbitrary text as a SHAPE: no crash; what is read prints to text that reads back as the same, and
 * what is valid keeps its meaning.
 * clang -std=gnu11 -g -fsanitize=fuzzer,address,undefined -D_GNU_SOURCE -Iinclude -Isrc
 *   fuzz/fuzz_problem.c src/core/{decimal,dtype,names,problem*,status}.c -lm */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "core/problem.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static void require(bool condition) {
  if (!condition) abort();
}

static void format(const attn_problem *p, char text[4096]) {
  int length = attn_problem_format(p, text, 4096);
  require(length > 0 && length < 4096 && strlen(text) == (size_t)length);
}

/* A valid problem's key says all that its text does. */
static void check_valid(const attn_problem *p, const attn_problem *again) {
  attn_problem a, b;
  attn_problem_size size;
  problem_key key_a, key_b;
  attn_status status = attn_problem_resolve(p, &a);
  require(attn_problem_resolve(again, &b) == status);
  if (status) return;
  problem_key_make(&a, &key_a);
  problem_key_make(&b, &key_b);
  require(problem_key_equal(&key_a, &key_b));
  require(attn_problem_measure(&a, &size) == ATTN_OK && size.score_pairs >= 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
  char text[4096], first[4096], second[4096];
  attn_problem p, again;
  if (size >= sizeof(text)) return 0;
  memcpy(text, bytes, size);
  text[size] = 0;
  attn_status status = attn_problem_parse(text, &p);
  if (status) {
    require(status == ATTN_ERROR_PARSE && strlen(attn_last_error()) > 0);
    return 0;
  }
  format(&p, first);
  require(attn_problem_parse(first, &again) == ATTN_OK);
  format(&again, second);
  require(!strcmp(first, second));
  check_valid(&p, &again);
  return 0;
}
