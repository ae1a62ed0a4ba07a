// SPDX-License-Identifier: Apache-2.0
#include "bench_case.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void *grow(void *list, int count, size_t size) {
  void *p = realloc(list, (size_t)(count + 1) * size);
  if (!p) abort();
  return p;
}

bool bench_add(bench_list *list, const attn_problem *problem) {
  list->problems = grow(list->problems, list->count, sizeof(*problem));
  list->problems[list->count++] = *problem;
  return true;
}

/* One implementation ready to be timed. */
typedef struct contender {
  attn_context *context;
  attn_plan *plan;
  void *workspace;
  double times[4096];
  int count;
} contender;

/* Inputs for a problem: normal numbers of any type, plain lengths, offsets and tables. */
struct bench_data {
  void *blocks[24];
  int count;
  int64_t left; /* bytes that may still be taken, so that no neighbour's memory is */
  attn_io io;
};

static void *take(bench_data *d, int64_t bytes) {
  void *p = bytes >= 0 && bytes <= d->left ? calloc(1, (size_t)(bytes ? bytes : 1)) : NULL;
  if (p) d->blocks[d->count++] = p, d->left -= bytes;
  return p;
}

static double uniform(uint64_t *s) {
  *s ^= *s << 13, *s ^= *s >> 7, *s ^= *s << 17;
  return ((double)(*s >> 11) + 0.5) * 0x1p-53;
}

static float normal(uint64_t *s) {
  return (float)(sqrt(-2 * log(uniform(s))) * cos(6.283185307179586 * uniform(s)));
}

/* Elements of a type from N(0, 1); int8 ones are for scales of 1/16. */
static void *random_elements(bench_data *d, attn_dtype type, int64_t count) {
  enum { PERIOD = 129 * 32 }; // drawing billions of normals would take longer than the attention
  static float sample[PERIOD];
  static char converted[PERIOD * sizeof(double)];
  uint64_t seed = 88172645463325252u;
  for (int i = 0; i < PERIOD; i++) sample[i] = (type == ATTN_INT8 ? 16.0f : 1.0f) * normal(&seed);
  if (attn_dtype_from_f32(type, sample, converted, PERIOD)) return NULL;
  int64_t step = attn_dtype_bytes(type, PERIOD);
  int64_t bytes = attn_dtype_bytes(type, (count + 31) / 32 * 32);
  char *p = take(d, bytes);
  for (int64_t at = 0; p && at < bytes; at += step)
    memcpy(p + at, converted, (size_t)(bytes - at < step ? bytes - at : step));
  return p;
}

static float *ones(bench_data *d, int64_t count) {
  float *p = take(d, count * (int64_t)sizeof(float));
  for (int64_t i = 0; p && i < count; i++) p[i] = 1.0f / 16;
  return p;
}

static int64_t span(int64_t outer, int64_t heads, int64_t rows, int64_t dim,
                    const attn_strides *s) {
  if (!outer || !heads || !rows) return 0;
  return (outer - 1) * s->batch + (heads - 1) * s->head + (rows - 1) * s->row + (dim - 1) * s->col +
         1;
}

/* Offsets of sequences that are all different: the i-th of n has longest * (1 - i / n)^k rows, with
 * k so that they add up. The sum of lengths up to a point is the integral of that. */
static int32_t *offsets(bench_data *d, int64_t batch, int64_t total, int64_t longest) {
  int32_t *p = take(d, (batch + 1) * (int64_t)sizeof(int32_t));
  double n = (double)batch, power = total ? (double)longest * n / (double)total : 1;
  for (int64_t i = 0; p && i <= batch; i++)
    p[i] = (int32_t)(batch ? floor((double)total * (1 - pow(1 - (double)i / n, power)) + 0.5) : 0);
  return p;
}

static void identity_mod(void *user, float *scores, int64_t ld, int64_t batch, int lanes,
                         const int64_t *head, const int64_t *q_index, int64_t kv_begin,
                         int64_t kv_count) {
  (void)user, (void)scores, (void)ld, (void)batch, (void)lanes, (void)head, (void)q_index,
      (void)kv_begin, (void)kv_count;
}

/* Memory that is left beside the workspaces; what is not known is no limit. */
static int64_t memory_left(const contender *all, int count) {
  int64_t left = attn_context_capability(all[0].context)->memory_available;
  if (left <= 0) return INT64_MAX;
  for (int i = 0; i < count; i++) left -= (int64_t)attn_plan_workspace(all[i].plan);
  return left;
}

/* False when they take more than `left` bytes or memory is short. */
static bool make_data(const attn_problem *r, bench_data *d, int64_t left) {
  bool paged = r->page_size > 0;
  int64_t kv_outer = paged ? r->num_pages : r->varlen ? 1 : r->batch;
  int64_t kv_rows = paged ? r->page_size : r->varlen ? r->total_kv : r->seq_kv - r->prefix;
  int64_t q_outer = r->varlen ? 1 : r->batch, q_rows = r->varlen ? r->total_q : r->seq_q;
  int64_t rows = r->batch * r->heads_q * r->seq_q, mask = 1;
  attn_io *io = &d->io;
  d->left = left;
  io->q =
      random_elements(d, r->dtype, span(q_outer, r->heads_q, q_rows, r->head_dim, &r->q_strides));
  io->k = random_elements(d, r->kv_dtype,
                          span(kv_outer, r->heads_kv, kv_rows, r->head_dim, &r->k_strides));
  io->v = random_elements(d, r->kv_dtype,
                          span(kv_outer, r->heads_kv, kv_rows, r->head_dim_v, &r->v_strides));
  io->out = random_elements(d, r->out_dtype,
                            span(q_outer, r->heads_q, q_rows, r->head_dim_v, &r->out_strides));
  if (r->prefix) {
    io->k_prefix = random_elements(d, r->kv_dtype, r->heads_kv * r->prefix * r->head_dim);
    io->v_prefix = random_elements(d, r->kv_dtype, r->heads_kv * r->prefix * r->head_dim_v);
    io->k_prefix_scale = io->v_prefix_scale = ones(d, r->heads_kv * r->prefix);
  }
  for (int i = 0; i < 4; i++)
    if (r->mask_dims[i]) mask += (r->mask_dims[i] - 1) * r->mask_strides[i];
  if (r->mask == ATTN_MASK_BOOL && (io->mask = take(d, mask)))
    memset((void *)(uintptr_t)io->mask, 1, (size_t)mask);
  if (r->mask == ATTN_MASK_ADDITIVE) io->mask = random_elements(d, r->mask_dtype, mask);
  if (r->return_lse) io->lse = take(d, (r->varlen ? r->heads_q * r->total_q : rows) * 4);
  if (r->weights) io->weights = take(d, rows * r->seq_kv * 4);
  if (r->alibi) io->alibi_slopes = ones(d, r->heads_q + r->batch * r->alibi_batch_stride);
  if (r->sinks) io->sinks = ones(d, r->heads_q);
  if (r->score_mod) io->score_mod = identity_mod;
  if (r->fp8_scale || r->kv_dtype == ATTN_INT8) {
    int64_t scales = r->kv_dtype == ATTN_INT8 ? kv_outer * kv_rows * r->heads_kv : r->heads_q;
    io->q_scale = ones(d, r->heads_q);
    io->k_scale = ones(d, scales), io->v_scale = ones(d, scales);
  }
  if (r->kv_lengths) {
    int32_t *lengths = take(d, r->batch * 4);
    for (int64_t b = 0; lengths && b < r->batch; b++) lengths[b] = (int32_t)r->seq_kv;
    io->kv_len = lengths;
  }
  if (r->varlen)
    io->cu_seqlens_q = offsets(d, r->batch, r->total_q, r->seq_q),
    io->cu_seqlens_kv = offsets(d, r->batch, r->total_kv, r->seq_kv - r->prefix);
  if (paged) {
    int32_t *table = take(d, r->batch * r->pages_per_seq * 4);
    for (int64_t i = 0; table && i < r->batch * r->pages_per_seq; i++)
      table[i] = (int32_t)(r->num_pages ? i * 7919 % r->num_pages : 0); // scattered
    io->block_table = table;
  }
  return io->q && io->k && io->v && io->out && (!r->mask || io->mask) &&
         (!r->weights || io->weights) && (!r->return_lse || io->lse);
}

static void free_data(bench_data *d) {
  for (int i = 0; i < d->count; i++) free(d->blocks[i]);
}

bench_data *bench_data_make(const attn_problem *resolved, int64_t most_bytes) {
  bench_data *d = calloc(1, sizeof(*d));
  if (d && make_data(resolved, d, most_bytes)) return d;
  bench_data_free(d);
  return NULL;
}

const attn_io *bench_data_io(const bench_data *d) { return &d->io; }

void bench_data_free(bench_data *d) {
  if (d) free_data(d);
  free(d);
}

static bench_share share_of(const attn_problem *p, double time, const attn_limits *l) {
  attn_problem_size s;
  bench_share out = { 0 };
  if (attn_problem_measure(p, &s)) return out;
  double kv = (double)s.k_bytes + (double)s.v_bytes;
  out.gflops = s.flops / time / 1e9;
  out.gbps = kv / time / 1e9;
  out.share = (double)NAN;
  if (!l) return out;
  attn_problem r;
  bool bf16 = !attn_problem_resolve(p, &r) && r.dtype == ATTN_BF16 && l->bf16_flops > 0;
  double arithmetic = s.flops / (bf16 ? l->bf16_flops : l->f32_flops),
         memory = kv / l->read_bandwidth;
  out.limit = arithmetic >= memory ? bf16 ? "bf16" : "fma" : "read";
  out.share = fmax(arithmetic, memory) / time;
  return out;
}

static void skip(bench_list *list, const char *text) {
  for (int i = 0; i < list->skipped_count; i++)
    if (!strcmp(list->skipped[i], text)) return;
  list->skipped = grow(list->skipped, list->skipped_count, sizeof(char *));
  list->skipped[list->skipped_count] = strdup(text);
  if (!list->skipped[list->skipped_count++]) abort();
}

/* Notes why a backend does not run the problem: the selector's reasons, or else the error. */
static void skip_backend(bench_list *list, attn_context *context, const attn_problem *p,
                         attn_backend backend, const char *error) {
  static attn_recommendation r;
  char text[1024], reasons[900];
  snprintf(text, sizeof(text), "%s%s%s", backend ? attn_backend_name(backend) : "",
           backend ? ": " : "", error);
  if (context && attn_select(context, p, &r))
    for (int i = 0; backend && i < r.rejection_count; i++) {
      const attn_rejection *x = &r.rejections[i];
      if (x->backend != backend) continue;
      cli_rejection_text(&r, x, reasons, sizeof(reasons));
      snprintf(text, sizeof(text), "%s: %s", x->implementation, reasons);
    }
  skip(list, text);
}

static bool prepare(const cli_common *c, bench_list *list, const attn_problem *p,
                    attn_backend backend, attn_isa isa, int threads, contender *x) {
  attn_config config = c->config;
  memset(x, 0, sizeof(*x));
  config.threads = threads;
  if (isa) config.isa = isa;
  if (backend) config.preferred = backend, config.strict = true;
  if (attn_context_create(&config, &x->context) || attn_plan_create(x->context, p, &x->plan)) {
    skip_backend(list, x->context, p, backend, attn_last_error());
  } else {
    x->workspace = malloc(attn_plan_workspace(x->plan) + 1);
  }
  if (x->workspace) return true;
  attn_plan_destroy(x->plan);
  attn_context_destroy(x->context);
  return false;
}

static int measure(const cli_common *c, contender *all, int count, const attn_io *io, int repeat,
                   double min_time) {
  enum { MOST = sizeof(all->times) / sizeof(all->times[0]) };
  double timed = 0;
  for (int round = -1; round < MOST && (round < repeat || timed < min_time * count); round++)
    for (int i = 0; i < count; i++) { // by turns, so that a slow minute hits all alike
      double start = cli_now();
      if (attn_execute(all[i].plan, io, all[i].workspace))
        return cli_fail(c, "%s", attn_last_error());
      double time = cli_now() - start;
      if (round >= 0) all[i].times[all[i].count++] = time, timed += time;
    }
  return CLI_OK;
}

static void add_result(bench_list *list, const attn_problem *p, contender *x, int threads,
                       const attn_limits *limits) {
  list->results = grow(list->results, list->result_count, sizeof(bench_result));
  bench_result *r = &list->results[list->result_count++];
  *r = (bench_result){ .threads = limits    ? limits->threads
                                  : threads ? threads
                                            : attn_context_capability(x->context)->compute_units,
                       .time = cli_median(x->times, x->count),
                       .workspace = attn_plan_workspace(x->plan) };
  snprintf(r->implementation, sizeof(r->implementation), "%s", attn_plan_implementation(x->plan));
  attn_problem_format(p, r->shape, sizeof(r->shape));
  r->share = share_of(p, r->time, limits);
}

int bench_problem(const cli_common *c, bench_list *list, const attn_problem *p, int threads,
                  int repeat, double min_time, const attn_limits *limits) {
  enum { MOST = 48 };
  contender *all = calloc(MOST, sizeof(*all));
  attn_kernel_info levels[8];
  int count = 0, level_count = c->isa_all ? attn_kernels(levels, 8) : 1;
  bench_data data = { 0 };
  attn_problem resolved;
  int status = all ? CLI_OK : cli_fail(c, "out of memory");
  if (!status && attn_problem_resolve(p, &resolved)) status = cli_fail(c, "%s", attn_last_error());
  for (int l = 0; !status && l < level_count; l++) {
    attn_isa isa = c->isa_all ? levels[l].isa : ATTN_ISA_AUTO;
    if (c->isa_all && !levels[l].ok) continue;
    int first = c->backend_all ? ATTN_BACKEND_AUTO + 1 : (int)c->config.preferred;
    int last = c->backend_all ? ATTN_BACKEND_COUNT - 1 : first;
    for (int b = first; b <= last && count < MOST; b++)
      count += prepare(c, list, p, (attn_backend)b, isa, threads, &all[count]);
  }
  if (!status && count && !make_data(&resolved, &data, memory_left(all, count)))
    status = cli_fail(c, "the tensors take more memory than there is available");
  if (!status && count) status = measure(c, all, count, &data.io, repeat, min_time);
  for (int i = 0; i < count; i++) {
    if (!status) add_result(list, p, &all[i], threads, limits);
    attn_plan_destroy(all[i].plan);
    attn_context_destroy(all[i].context);
    free(all[i].workspace);
  }
  free_data(&data);
  free(all);
  return status;
}

int bench_plot(const cli_common *c, const char *path, const bench_list *list) {
  char target[PATH_MAX], temporary[PATH_MAX + 16];
  struct stat is;
  if (!realpath(path, target)) snprintf(target, sizeof(target), "%s", path); // a new file
  if (!stat(target, &is) && !S_ISREG(is.st_mode))
    return cli_fail(c, "%s: not a regular file", path);
  snprintf(temporary, sizeof(temporary), "%s.XXXXXX", target);
  int fd = mkstemp(temporary);
  FILE *out = fd < 0 ? NULL : fdopen(fd, "w");
  if (!out) return cli_fail(c, "%s: %s", temporary, strerror(errno));
  fchmod(fd, 0644);
  if (!list) return fclose(out), remove(temporary), CLI_OK;
  int height = 40 + 24 * list->result_count;
  fprintf(out,
          "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"960\" height=\"%d\" "
          "font-family=\"sans-serif\" font-size=\"12\">\n",
          height);
  fprintf(out,
          "<rect width=\"960\" height=\"%d\" fill=\"white\"/>\n<text x=\"10\" y=\"20\">Share of "
          "the machine's limit (%%)</text>\n",
          height);
  for (int i = 0; i < list->result_count; i++) {
    const bench_result *r = &list->results[i];
    double share = isfinite(r->share.share) ? r->share.share : 0;
    int y = 40 + 24 * i;
    fprintf(out, "<text x=\"10\" y=\"%d\">%s, %d threads</text>\n", y + 13, r->implementation,
            r->threads);
    fprintf(out,
            "<rect x=\"260\" y=\"%d\" width=\"%.1f\" height=\"18\" "
            "fill=\"#4a7\"><title>%s</title></rect>\n",
            y, 500 * fmin(share, 1.2), r->shape);
    fprintf(out, "<text x=\"%.1f\" y=\"%d\">%.1f %%</text>\n", 268 + 500 * fmin(share, 1.2), y + 13,
            100 * share);
  }
  fprintf(out, "</svg>\n");
  bool failed = ferror(out) != 0;
  failed |= fclose(out) != 0;
  if (!failed && !rename(temporary, target)) return CLI_OK;
  remove(temporary);
  return cli_fail(c, "%s could not be written", path);
}

void bench_free(bench_list *list) {
  for (int i = 0; i < list->skipped_count; i++) free(list->skipped[i]);
  free(list->skipped), free(list->problems), free(list->results);
}
