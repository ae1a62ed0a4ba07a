// SPDX-License-Identifier: Apache-2.0
/* Queries and weights into pairs, the same for every bf16 instruction. Vector words: template_pairs.h. */

static void pairs_load_queries(const uint16_t *const *rows, int vectors, int64_t dim,
                               uint32_t *qt) {
  const int64_t lanes = (int64_t)vectors * VW;
  for (int v = 0; v < vectors; v++, rows += VW, qt += VW)
    for (int64_t c = 0; c < dim; c += 2 * VW) {
      int64_t n = dim - c < 2 * VW ? dim - c : 2 * VW;
      vf r[VW];
      for (int i = 0; i < VW; i++)
        r[i] = rows[i] ? vp_as_vf(vp_load_part(rows[i] + c, n)) : vf_zero();
      vf_transpose(r);
      for (int64_t i = 0; 2 * i < n; i++) vp_store(qt + (c / 2 + i) * lanes, vf_as_vp(r[i]));
    }
}

static void pairs_pack_weights(const float *p, int keys, int vectors, uint32_t *w) {
  for (int j = 0; j < keys; j += 2, p += 2 * vectors * VW, w += vectors * VW) {
    vf even[KERNEL_MAX_VECTORS], odd[KERNEL_MAX_VECTORS];
    for (int v = 0; v < vectors; v++) { // all before the first store, which may be over them
      even[v] = vf_load(p + v * VW);
      odd[v] = j + 1 < keys ? vf_load(p + (vectors + v) * VW) : vf_zero();
    }
    for (int v = 0; v < vectors; v++) vp_store(w + v * VW, vp_round(even[v], odd[v]));
  }
}
