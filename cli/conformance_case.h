// SPDX-License-Identifier: Apache-2.0
/* One stored case of the ONNX operator Attention as a problem with data; see
 * tests/conformance/README.md. */
#ifndef CLI_CONFORMANCE_CASE_H
#define CLI_CONFORMANCE_CASE_H

#include <limits.h>
#include <stdbool.h>

#include "array.h"
#include "attn/attn.h"

enum role { Q, K, V, MASK, PAST_K, PAST_V, LENGTHS, Y, PRESENT_K, PRESENT_V, QK, ROLES };
const char *conformance_role_name(int role); /* as the operator calls it */

enum { WHY = 512 };

typedef struct attributes {
  int64_t q_heads, kv_heads, causal, mode, softmax_precision;
  double scale, softcap;
  bool scale_set;
} attributes;

/* A tensor of rank 3 or 4 seen as [batch, heads, seq, dim]; rows are contiguous. */
typedef struct view {
  const char *data;
  int64_t batch, heads, rows, dim;
  attn_strides strides;
} view;

/* Zero but for name and folder before it is read. */
typedef struct test_case {
  const char *name;
  char folder[PATH_MAX];
  array t[ROLES];
  bool has[ROLES];
  attributes a;
  view q, k, v;
  char *joined_k, *joined_v, *mask, *out;
  float *weights;
  int32_t *lengths;
  int64_t weights_count;
  attn_problem problem;
  attn_io io;
  char why[WHY];
} test_case;

/* Reads the folder's case.json and tensors, and makes problem, io and room for the outputs of them.
 * False with the reason in c->why. */
bool conformance_read(test_case *c);
void conformance_release(test_case *c);

/* Puts the reason into c->why; always false. */
bool conformance_fault(test_case *c, const char *format, ...) __attribute__((format(printf, 2, 3)));

attn_dtype conformance_dtype(const array *t); /* f32 or f16; ATTN_DTYPE_DEFAULT for others */

#endif
