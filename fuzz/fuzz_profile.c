// SPDX-License-Identifier: Apache-2.0
/* Arbitrary bytes as a profile file: no crash, and what is read can be written and reads back.
 * clang -fsanitize=fuzzer,address,undefined -D_GNU_SOURCE -Isrc -Iinclude fuzz/fuzz_profile.c
 *   build/libattn_internal.a -lhwloc -lm -lpthread -ldl */
#include <stdlib.h>
#include <string.h>

#include "hardware/internal.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
  attn_capability first, second;
  char text[8192], again[8192];
  if (hardware_capability_parse((const char *)bytes, size, "fuzz", &first) != ATTN_OK) return 0;
  first.notes[0] = '\0';
  int length = attn_capability_format(&first, text, sizeof text);
  if (length <= 0 || (size_t)length >= sizeof text) abort();
  if (hardware_capability_parse(text, (size_t)length, "fuzz", &second) != ATTN_OK) abort();
  if (second.notes[0]) abort();
  attn_capability_format(&second, again, sizeof again);
  if (strcmp(text, again) != 0) abort();
  return 0;
}
