// SPDX-License-Identifier: Apache-2.0
#include "backend/backend.h"

#include <math.h>

void backend_reject(backend_reasons *reasons, attn_reason_code code, double value, double limit) {
  if (reasons->count < BACKEND_MAX_REASONS)
    reasons->items[reasons->count++] = (attn_reason){ code, value, limit };
}

void backend_check(const backend_constraint *rows, int count, const backend_query *query,
                   backend_reasons *reasons) {
  for (int i = 0; i < count; i++) {
    double value = NAN, limit = NAN;
    if (rows[i].violated(query, &value, &limit))
      backend_reject(reasons, rows[i].code, value, limit);
  }
}
