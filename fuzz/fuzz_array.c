// SPDX-License-Identifier: Apache-2.0
/* Arbitrary bytes as .npy, .npz and .safetensors: no crash, no leak, data within bounds.
 * clang -fsanitize=fuzzer,address,undefined -D_GNU_SOURCE -Icli fuzz/fuzz_array.c cli/array.c
 *   cli/npy.c cli/npz.c cli/safetensors.c -lz -ljansson */
#include "array.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

typedef int (*parser)(const void *, size_t, const char *, array *, char *, size_t);

static int parse_npy(const void *bytes, size_t size, const char *member, array *a, char *err,
                     size_t err_size) {
  (void)member;
  return array_parse_npy(bytes, size, a, err, err_size);
}

/* What was read can be written, and reads back as the same array. */
static void check_header(const array *a) {
  unsigned char header[ARRAY_NPY_HEADER_MAX];
  size_t first = array_npy_header(a, header);
  unsigned char *file = malloc(first + a->bytes);
  array again;
  if (file == NULL) return;
  memcpy(file, header, first);
  memcpy(file + first, a->data, a->bytes);
  if (first > sizeof header || first % 64 != 0 ||
      array_parse_npy(file, first + a->bytes, &again, NULL, 0) != 0)
    abort();
  if (again.ndim != a->ndim || again.bytes != a->bytes ||
      memcmp(again.shape, a->shape, sizeof a->shape) != 0 ||
      memcmp(again.data, a->data, a->bytes) != 0)
    abort();
  array_release(&again);
  free(file);
}

static void check(parser parse, const uint8_t *bytes, size_t size, const char *member) {
  array a;
  char err[1024] = "";
  if (parse(bytes, size, member, &a, err, sizeof err) != 0) {
    if (err[0] == '\0' || a.data != NULL || a.owner != NULL) abort();
    return;
  }
  if ((uint64_t)array_count(&a) * array_dtype_size(a.dtype) != a.bytes) abort();
  if (array_to_c_order(&a, err, sizeof err) != 0) abort();
  check_header(&a);
  array_release(&a);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
  static const parser parsers[] = { parse_npy, array_parse_npz, array_parse_safetensors };
  for (size_t p = 0; p < sizeof parsers / sizeof parsers[0]; p++) {
    check(parsers[p], bytes, size, NULL);
    check(parsers[p], bytes, size, "k");
  }
  return 0;
}
