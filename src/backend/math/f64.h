// SPDX-License-Identifier: Apache-2.0
/* Math for f64 tensors: one row at a time, everything in double. */
#ifndef BACKEND_MATH_F64_H
#define BACKEND_MATH_F64_H

#include "engine/schedule.h"

/* Bytes of scratch of one worker. */
int64_t f64_scratch_bytes(const attn_problem *problem);
void f64_execute(const backend_plan *plan, const attn_io *io, void *workspace,
                 const backend_parallel *parallel);

#endif
