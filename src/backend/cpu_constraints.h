// SPDX-License-Identifier: Apache-2.0
/* Rows that the tables of the CPU implementations are made of. */
#ifndef BACKEND_CPU_CONSTRAINTS_H
#define BACKEND_CPU_CONSTRAINTS_H

#include "backend/backend.h"

static inline bool cpu_dtype_f64(const backend_query *q, double *value, double *limit) {
  (void)limit;
  *value = q->problem->dtype;
  return q->problem->dtype == ATTN_F64;
}

static inline bool cpu_weights(const backend_query *q, double *value, double *limit) {
  (void)limit;
  *value = q->problem->weights;
  return q->problem->weights != ATTN_WEIGHTS_NONE;
}

static inline bool cpu_varlen(const backend_query *q, double *value, double *limit) {
  (void)value, (void)limit;
  return q->problem->varlen;
}

static inline bool cpu_not_varlen(const backend_query *q, double *value, double *limit) {
  (void)value, (void)limit;
  return !q->problem->varlen;
}

static inline bool cpu_batch_invariant(const backend_query *q, double *value, double *limit) {
  (void)value, (void)limit;
  return q->problem->batch_invariant;
}

#define CPU_ROW_F64 { ATTN_REASON_DTYPE, cpu_dtype_f64 }
#define CPU_ROW_WEIGHTS { ATTN_REASON_WEIGHTS, cpu_weights }
#define CPU_ROW_VARLEN { ATTN_REASON_VARLEN, cpu_varlen }

#define CPU_CHECK(rows, query, reasons)                                                            \
  backend_check(rows, (int)(sizeof(rows) / sizeof((rows)[0])), query, reasons)

#endif
