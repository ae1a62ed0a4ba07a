// SPDX-License-Identifier: Apache-2.0
/*
 * libattn: describe a scaled dot-product attention problem, get a plan that names the best
 * backend for this hardware and says why, execute the plan.
 *
 *     attn_problem p = { .batch = 1, .heads_q = 32, .heads_kv = 8, .seq_q = 1, .seq_kv = 8192,
 *                        .head_dim = 128, .causal = ATTN_CAUSAL_BOTTOM_RIGHT };
 *     attn_context *ctx;  attn_plan *plan;
 *     attn_context_create(NULL, &ctx);
 *     attn_plan_create(ctx, &p, &plan);
 *     void *workspace = aligned_alloc(64, attn_plan_workspace(plan));
 *     attn_execute(plan, &(attn_io){ .q = q, .k = k, .v = v, .out = out }, workspace);
 *
 * Conventions of the whole interface
 *  - Every struct's zero value is the common case; initialise with `= {0}` or designated fields.
 *  - A function that can fail returns attn_status and, when it fails, changes none of its outputs;
 *    attn_last_error() then names the argument and the limit.
 *  - Sizes are int64_t elements unless a name says bytes; strides are in elements.
 *  - The library never prints, exits, or changes process state such as signal handlers or FP modes.
 *  - "Thread-safe" below means: may be called by any number of threads on the same object.
 */
#ifndef ATTN_ATTN_H
#define ATTN_ATTN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#if defined(_WIN32)
#define ATTN_API
#else
#define ATTN_API __attribute__((visibility("default")))
#endif

#ifdef __cplusplus
extern "C" {
#endif

#define ATTN_VERSION_MAJOR 0
#define ATTN_VERSION_MINOR 1
#define ATTN_VERSION_PATCH 0

/* Version of the library in use, "MAJOR.MINOR.PATCH". Static storage. */
ATTN_API const char *attn_version(void);

/* ---- Status ------------------------------------------------------------------------------ */

typedef enum attn_status {
  ATTN_OK = 0,
  ATTN_ERROR_NULL,          /* a required pointer is NULL */
  ATTN_ERROR_SHAPE,         /* a size is negative, zero where that is not legal, or disagrees */
  ATTN_ERROR_STRIDE,        /* a stride is negative or describes overlapping output */
  ATTN_ERROR_DTYPE,         /* an unknown dtype, or one that this argument cannot have */
  ATTN_ERROR_VALUE,         /* a number outside its range: NaN scale, dropout outside [0, 1), ... */
  ATTN_ERROR_OVERFLOW,      /* a product of sizes does not fit 63 bits */
  ATTN_ERROR_UNSUPPORTED,   /* no implementation (or not the one demanded) can run the problem */
  ATTN_ERROR_MEMORY_BUDGET, /* implementations exist, but none fits the memory budget */
  ATTN_ERROR_MEMORY,        /* an allocation failed */
  ATTN_ERROR_NOT_FOUND,     /* a name (profile, option, backend) that does not exist */
  ATTN_ERROR_PARSE,         /* text that cannot be read */
  ATTN_ERROR_IO,            /* a file could not be read or written */
  ATTN_STATUS_COUNT
} attn_status;

/* Short English text of a status; never NULL, static storage. Thread-safe. */
ATTN_API const char *attn_status_string(attn_status status);

/* Details of the calling thread's latest failed call: names the argument, the value and the limit.
 * "" when nothing has failed. Valid until that thread's next failing call. */
ATTN_API const char *attn_last_error(void);

/* ---- Words ------------------------------------------------------------------------------- */

/* Element types. ATTN_DTYPE_DEFAULT means f32 for a problem's dtype and "as dtype" elsewhere. */
typedef enum attn_dtype {
  ATTN_DTYPE_DEFAULT = 0,
  ATTN_F32,
  ATTN_F16,    /* IEEE binary16 */
  ATTN_BF16,   /* upper half of binary32 */
  ATTN_F8E4M3, /* OCP 8-bit: no infinities, S.1111.111 is NaN, largest 448 */
  ATTN_F8E5M2, /* OCP 8-bit: IEEE-like, largest finite 57344 */
  ATTN_F64,
  ATTN_INT8,   /* KV cache only: int8 with one f32 scale per token and head */
  ATTN_Q8_0,   /* KV cache only: blocks of 32 int8 with one f16 scale (34 bytes) */
  ATTN_Q4_0,   /* KV cache only: blocks of 32 4-bit values with one f16 scale (18 bytes) */
  ATTN_DTYPE_COUNT
} attn_dtype;

/* "f32", "bf16", ...; "default" for ATTN_DTYPE_DEFAULT, NULL for an unknown value. Thread-safe. */
ATTN_API const char *attn_dtype_name(attn_dtype dtype);
/* Bytes that `count` consecutive elements take; -1 when unknown, negative or overflowing, or when
 * a block dtype's count is no multiple of 32. Thread-safe. */
ATTN_API int64_t attn_dtype_bytes(attn_dtype dtype, int64_t count);

/* Converts `count` consecutive elements (a multiple of 32 for block dtypes), rounding to nearest even;
 * the block dtypes are quantised as ggml does, int8 without its scale. Thread-safe. */
ATTN_API attn_status attn_dtype_from_f32(attn_dtype dtype, const float *src, void *dst, int64_t count);
ATTN_API attn_status attn_dtype_to_f32(attn_dtype dtype, const void *src, float *dst, int64_t count);
/* Element `index` of an array of a dtype as a double; NAN for an unknown dtype. Thread-safe. */
ATTN_API double attn_dtype_load(attn_dtype dtype, const void *data, int64_t index);

/* Algorithms. Names for people and files: attn_backend_name ("flash_v3"), attn_backend_display_name
 * ("FlashAttention-3"). ATTN_BACKEND_AUTO stands for "let the selector choose". */
typedef enum attn_backend {
  ATTN_BACKEND_AUTO = 0,
  ATTN_BACKEND_FLASH,
  ATTN_BACKEND_FLASH_V3,
  ATTN_BACKEND_MATH,
  ATTN_BACKEND_MEMORY_EFFICIENT,
  ATTN_BACKEND_CUDNN,
  ATTN_BACKEND_METAL,
  ATTN_BACKEND_CPU,
  ATTN_BACKEND_VARLEN,
  ATTN_BACKEND_FLASH_DECODE,
  ATTN_BACKEND_COUNT
} attn_backend;

ATTN_API const char *attn_backend_name(attn_backend backend);         /* NULL if unknown */
ATTN_API const char *attn_backend_display_name(attn_backend backend); /* NULL if unknown */
/* ATTN_ERROR_NOT_FOUND (listing the names) for an unknown name; "auto" is known. */
ATTN_API attn_status attn_backend_from_name(const char *name, attn_backend *backend);

typedef enum attn_device_type {
  ATTN_DEVICE_CPU = 0,
  ATTN_DEVICE_CUDA,
  ATTN_DEVICE_ROCM,
  ATTN_DEVICE_METAL,
  ATTN_DEVICE_XPU,
  ATTN_DEVICE_TYPE_COUNT
} attn_device_type;

ATTN_API const char *attn_device_type_name(attn_device_type type); /* "cpu", ...; NULL if unknown */

/* ---- Problem ----------------------------------------------------------------------------- */

/* Which key a query sits on: query i is aligned with key i + offset. Causal attention lets query i
 * see keys j <= i + offset. */
typedef enum attn_causal {
  ATTN_CAUSAL_NONE = 0,
  ATTN_CAUSAL_TOP_LEFT,     /* offset 0: PyTorch's is_causal */
  ATTN_CAUSAL_BOTTOM_RIGHT, /* offset (key length of the sequence) - (its query length): KV caches */
  ATTN_CAUSAL_OFFSET,       /* offset given in causal_offset */
  ATTN_CAUSAL_COUNT
} attn_causal;

typedef enum attn_mask_kind {
  ATTN_MASK_NONE = 0,
  ATTN_MASK_BOOL,     /* one byte an element, non-zero = attend */
  ATTN_MASK_ADDITIVE, /* added to the scaled, capped score in f32; -inf removes the key */
  ATTN_MASK_KIND_COUNT
} attn_mask_kind;

typedef enum attn_layout {
  ATTN_LAYOUT_BHSD = 0, /* [batch, heads, seq, dim], contiguous */
  ATTN_LAYOUT_BSHD,     /* [batch, seq, heads, dim], contiguous */
  ATTN_LAYOUT_STRIDED,  /* strides given in the problem, taken literally */
  ATTN_LAYOUT_COUNT
} attn_layout;

/* Elements between neighbours along each dimension. 0 repeats (an expanded tensor) and is legal for
 * inputs. For varlen `batch` is unused; for paged K/V `batch` is the page stride. `col` 0 means 1. */
typedef struct attn_strides {
  int64_t batch, head, row, col;
} attn_strides;

/* What io.weights receives, if anything. All are f32 [batch, heads_q, seq_q, seq_kv] but COLUMN_SUMS. */
typedef enum attn_weights {
  ATTN_WEIGHTS_NONE = 0,
  ATTN_WEIGHTS_SCORES,      /* scaled scores */
  ATTN_WEIGHTS_CAPPED,      /* ... after softcap */
  ATTN_WEIGHTS_MASKED,      /* ... after every mask; removed entries are -inf */
  ATTN_WEIGHTS_PROBS,       /* probabilities before dropout; rows without a key are 0 */
  ATTN_WEIGHTS_COLUMN_SUMS, /* f32 [batch, heads_q, seq_kv]: probabilities summed over queries */
  ATTN_WEIGHTS_COUNT
} attn_weights;

/* Scales that fp8 inputs are multiplied with (io.q_scale, k_scale, v_scale). */
typedef enum attn_fp8_scale {
  ATTN_FP8_SCALE_NONE = 0,
  ATTN_FP8_SCALE_TENSOR, /* one f32 */
  ATTN_FP8_SCALE_HEAD,   /* f32 [heads_q] for q, [heads_kv] for k and v */
  ATTN_FP8_SCALE_COUNT
} attn_fp8_scale;

/*
 * One attention call without its data:
 *
 *   out[b,h,i,:] = sum_j softmax_j( mask(cap(scale * q[b,h,i,:] . k[b,h/g,j,:])) ) * v[b,h/g,j,:]
 *
 * with g = heads_q / heads_kv. A row that no key is left for gives out = 0 and LSE = -inf. Keys
 * removed by kv_lengths, causal or window for every row of a tile are never read; a key removed
 * for a row does not influence that row, whatever it holds.
 *
 * Zero batch, heads_q, seq_q or total are legal and do nothing; zero seq_kv gives empty rows.
 */
typedef struct attn_problem {
  int64_t batch;      /* sequences; with varlen too */
  int64_t heads_q;
  int64_t heads_kv;   /* 0: heads_q. heads_q must be a multiple of it */
  int64_t seq_q;      /* query length; with varlen the longest */
  int64_t seq_kv;     /* key length (capacity, where kv_lengths is set); with varlen the longest */
  int64_t head_dim;   /* of q and k, >= 1 */
  int64_t head_dim_v; /* of v and out; 0: head_dim */

  attn_dtype dtype;     /* of q; default f32 */
  attn_dtype kv_dtype;  /* of k and v; default: dtype */
  attn_dtype out_dtype; /* dtype or f32; default: dtype (for fp8: f32) */
  attn_fp8_scale fp8_scale;

  bool scale_set; /* take `scale` literally, also when it is 0 */
  float scale;    /* 0 and not scale_set: 1/sqrt(head_dim); at most 1e30 in magnitude */
  float softcap;  /* c > 0: s <- c * tanh(s / c), after scale and before masks; 0: off */

  attn_causal causal;
  int64_t causal_offset; /* for ATTN_CAUSAL_OFFSET; may be negative */

  /* Query i sees keys j with i + offset - window_left <= j <= i + offset + window_right; a negative
   * side is unbounded. The offset is causal's; without causal it is window_align's, by default
   * ATTN_CAUSAL_BOTTOM_RIGHT (as FlashAttention's window_size). */
  bool window;
  int64_t window_left, window_right;
  attn_causal window_align;

  attn_mask_kind mask;
  attn_dtype mask_dtype;   /* of an additive mask: f32 (default), f16, bf16 */
  int64_t mask_dims[4];    /* [batch, heads_q, seq_q, seq_kv]; 0: full, 1: broadcast. The last may be
                              shorter than seq_kv: keys past it are removed */
  int64_t mask_strides[4]; /* elements; all 0: contiguous over mask_dims */

  bool alibi;                 /* score += -slope * |i + offset - j|; slopes f32 [heads_q] in io */
  int64_t alibi_batch_stride; /* elements between batches' slopes; 0: shared */
  bool sinks;                 /* one extra logit per query head (f32 [heads_q]) without a value */
  bool score_mod;             /* io.score_mod rewrites scores, after softcap and before masks */
  bool kv_lengths;            /* io.kv_len gives each sequence's key length <= seq_kv */

  bool varlen;                /* q, out: [total_q, heads, dim]; k, v: [total_kv, heads, dim] */
  int64_t total_q, total_kv;  /* rows of the packed tensors; bounds for io.cu_seqlens */

  /* Keys [0, prefix) are shared by the whole batch (a system prompt) and lie in io.k_prefix and
   * io.v_prefix, [heads_kv, prefix, dim], contiguous; k and v hold each sequence's keys from `prefix`
   * on. seq_kv, kv_len, causal, windows and masks count all keys; cu_seqlens_kv, pages and the strides
   * of k and v those after the prefix. */
  int64_t prefix;

  int64_t page_size;          /* > 0: K/V are pages [num_pages, page_size, heads_kv, dim] */
  int64_t num_pages;
  int64_t pages_per_seq;      /* row length of io.block_table */

  float dropout; /* probability in [0, 1) that a weight is dropped; Philox4x32-10, seed in io */

  bool return_lse;      /* io.lse receives log-sum-exp */
  attn_weights weights; /* io.weights receives scores or probabilities */
  bool batch_invariant; /* a row's bits do not depend on the other rows, the batch or seq_q */

  attn_layout layout;
  attn_strides q_strides, k_strides, v_strides, out_strides; /* for ATTN_LAYOUT_STRIDED */
} attn_problem;

/* Checks every field against every other; ATTN_OK or the first fault, named in attn_last_error().
 * Thread-safe. */
ATTN_API attn_status attn_problem_validate(const attn_problem *problem);

/* Copies `problem` with every default filled in: heads_kv, head_dim_v, dtypes, scale, strides
 * (layout becomes ATTN_LAYOUT_STRIDED), mask dims and strides. Fails as attn_problem_validate. */
ATTN_API attn_status attn_problem_resolve(const attn_problem *problem, attn_problem *resolved);

/* Sets layout to STRIDED and fills the four strides for the given contiguous layout, so that single
 * ones can then be changed. Uses the sizes already set. */
ATTN_API attn_status attn_problem_set_layout(attn_problem *problem, attn_layout layout);

/* What a problem costs whatever runs it. Thread-safe. */
typedef struct attn_problem_size {
  int64_t q_bytes, k_bytes, v_bytes, out_bytes; /* dense element bytes by dtype */
  int64_t mask_bytes;                           /* of the mask as stored (broadcast not expanded) */
  int64_t lse_bytes;
  int64_t scores_bytes; /* f32 [batch, heads_q, seq_q, seq_kv], what a materialising backend keeps */
  double score_pairs;   /* (query, key) pairs that structure leaves, over batch and query heads */
  double flops;         /* 2 * score_pairs * (head_dim + head_dim_v) */
} attn_problem_size;

/* With varlen, kv_lengths or paging the lengths are data: every sequence counts as the longest. */
ATTN_API attn_status attn_problem_measure(const attn_problem *problem, attn_problem_size *size);

/* Writes the problem as the command line's SHAPE ("--batch 1 --heads 32:8 --seq 1:8192 ..."), every
 * non-default field; what is printed parses to the same problem. Returns the length that the whole
 * text has (as snprintf); `size` 0 with NULL buffer is legal. */
ATTN_API int attn_problem_format(const attn_problem *problem, char *buffer, size_t size);

/* Reads SHAPE text into *problem (starting from zero; batch and heads_q are 1 unless given, --seq and
 * --dim must be). Says nothing about validity. ATTN_ERROR_PARSE names the word at fault. */
ATTN_API attn_status attn_problem_parse(const char *text, attn_problem *problem);

/* Applies one SHAPE option such as ("--heads", "32:8"); `value` NULL for a switch. *used (may be
 * NULL) receives how many of the two words were consumed: 0 when `option` is no SHAPE option. */
ATTN_API attn_status attn_problem_option(attn_problem *problem, const char *option, const char *value,
                                         int *used);

/* ---- Context ----------------------------------------------------------------------------- */

/* The host's memory. `alignment` is a power of two. free(NULL) is never called. */
typedef struct attn_allocator {
  void *(*alloc)(void *user, size_t size, size_t alignment);
  void (*free)(void *user, void *pointer);
  void *user;
} attn_allocator;

/* The host's threads: call body(arg, i) once for every i in [0, count), in any order, on any
 * threads, and return when all have returned. Serial execution is legal and gives the same bits. */
typedef void (*attn_parallel_for)(void *user, int count, void (*body)(void *arg, int index),
                                  void *arg);

typedef enum attn_log_level { ATTN_LOG_WARNING = 0, ATTN_LOG_CHOICE, ATTN_LOG_CALL } attn_log_level;
typedef void (*attn_log_sink)(void *user, attn_log_level level, const char *message);

typedef enum attn_objective {
  ATTN_OBJECTIVE_LATENCY = 0, /* wall time of one call that has all threads */
  ATTN_OBJECTIVE_THROUGHPUT,  /* core-seconds per call, many calls side by side */
  ATTN_OBJECTIVE_BALANCED,    /* geometric mean of the two */
  ATTN_OBJECTIVE_COUNT
} attn_objective;

typedef enum attn_autotune {
  ATTN_AUTOTUNE_RECORDED = 0, /* measurements handed to attn_record correct the model */
  ATTN_AUTOTUNE_OFF,          /* the model alone */
  ATTN_AUTOTUNE_COUNT
} attn_autotune;

/* Measurements and calibrations in files (wisdom.h). */
typedef enum attn_wisdom_use {
  ATTN_WISDOM_LOAD = 0, /* read when the context is made, written by attn_wisdom_save alone */
  ATTN_WISDOM_OFF,      /* no file is touched, attn_wisdom_* functions fail */
  ATTN_WISDOM_AUTOSAVE, /* also written when the context is destroyed; a failure is logged */
  ATTN_WISDOM_USE_COUNT
} attn_wisdom_use;

typedef enum attn_isa {
  ATTN_ISA_AUTO = 0,
  ATTN_ISA_SCALAR,
  ATTN_ISA_AVX2,        /* AVX2 and FMA */
  ATTN_ISA_AVX512,      /* AVX-512 F, BW, DQ, VL */
  ATTN_ISA_AVX512_BF16, /* and AVX512-BF16: bf16 problems in bf16 arithmetic */
  ATTN_ISA_AMX,         /* and AMX-BF16: the same on matrix tiles */
  ATTN_ISA_NEON,        /* AArch64 Advanced SIMD */
  ATTN_ISA_COUNT
} attn_isa;

ATTN_API const char *attn_isa_name(attn_isa isa); /* "scalar", "avx2", ...; NULL if unknown */
ATTN_API attn_status attn_isa_from_name(const char *name, attn_isa *isa);

struct attn_capability; /* hardware.h */

typedef struct attn_config {
  int threads;               /* most threads a call may use; 0: the cores this process may use */
  attn_backend preferred;    /* taken whenever it can run; the reason says so, or why it cannot */
  bool strict;               /* a preferred backend that cannot run is ATTN_ERROR_UNSUPPORTED */
  uint32_t disabled;         /* bit (1 << attn_backend) excludes a backend */
  attn_objective objective;
  attn_autotune autotune;
  int64_t memory_budget;     /* bytes of workspace a plan may ask for; 0: no limit */
  int64_t flash_min_seq_len; /* flash backends only from this seq_kv on; 0: no minimum */
  bool deterministic;        /* only implementations whose results repeat bit for bit */
  bool debug;                /* always math */
  attn_isa isa;              /* highest ISA level to use, of this architecture; auto: the best */
  bool ignore_environment;   /* do not read ATTN_* variables */
  bool no_measure;           /* do not measure peak and bandwidth (about 20 ms, once a process) */

  attn_wisdom_use wisdom;
  const char *wisdom_path;   /* file to read and write in place of the user's; "": no files. Copied */

  /* Select for this hardware in place of what is detected ("what if"): plans cannot be made.
   * Copied. NULL: detected. */
  const struct attn_capability *capability;

  attn_allocator allocator;       /* both functions NULL: malloc */
  attn_parallel_for parallel_for; /* NULL: the library's own threads */
  void *parallel_for_user;
  attn_log_sink log;              /* NULL: silence */
  void *log_user;
} attn_config;

typedef struct attn_context attn_context;

/* Detects the hardware and makes a context; config NULL is all defaults, and is copied. The
 * environment (ATTN_BACKEND, ATTN_ISA, ATTN_NUM_THREADS, ATTN_VERBOSE, ATTN_WISDOM) fills fields left at their
 * default, unless ignore_environment. Destroy with attn_context_destroy. Threads start at the first
 * call that needs them. A context is thread-safe. */
ATTN_API attn_status attn_context_create(const attn_config *config, attn_context **context);
/* Plans made from the context must be destroyed before. NULL is ignored. */
ATTN_API void attn_context_destroy(attn_context *context);
/* The global context, made with defaults at first use; NULL if that failed (attn_last_error).
 * Never destroyed. Thread-safe. */
ATTN_API attn_context *attn_default_context(void);
/* The effective configuration, environment included. */
ATTN_API const attn_config *attn_context_config(const attn_context *context);
/* The capability that selection works with. */
ATTN_API const struct attn_capability *attn_context_capability(const attn_context *context);

/* ---- Plan and execution ------------------------------------------------------------------ */

/* Rewrites a tile of scores in place, natural units, after softcap and before masks.
 * scores[j * ld + lane] belongs to key kv_begin + j of query row q_index[lane] and query head
 * head[lane], lane < lanes. May be called by several threads at once. */
typedef void (*attn_score_mod)(void *user, float *scores, int64_t ld, int64_t batch, int lanes,
                               const int64_t *head, const int64_t *q_index, int64_t kv_begin,
                               int64_t kv_count);

/* Data of one call. Pointers need no alignment beyond the element's own natural one. Inputs may be
 * expanded (stride 0) and may overlap each other; `out` may not overlap an input. */
typedef struct attn_io {
  const void *q, *k, *v;
  void *out;
  const void *mask;
  float *lse;                 /* [batch, heads_q, seq_q]; varlen: [heads_q, total_q]; natural log */
  void *weights;              /* f32, see attn_weights */
  const float *alibi_slopes;
  const float *sinks;
  attn_score_mod score_mod;
  void *score_mod_user;
  const void *k_prefix, *v_prefix; /* see attn_problem.prefix */
  const float *k_prefix_scale, *v_prefix_scale; /* int8: f32 [prefix, heads_kv] */
  const int32_t *kv_len;      /* [batch], each in [0, seq_kv] */
  const int32_t *cu_seqlens_q, *cu_seqlens_kv; /* [batch + 1], from 0, non-decreasing */
  const int32_t *block_table; /* [batch, pages_per_seq]; entries past a sequence's length unread */
  const float *q_scale, *k_scale, *v_scale; /* fp8: see attn_fp8_scale; int8: f32 [batch or pages,
                                               seq or page_size, heads_kv], contiguous */
  uint64_t dropout_seed, dropout_offset;
} attn_io;

typedef struct attn_plan attn_plan;

/* Chooses (attn_select) and prepares. A plan is immutable; any number of threads may execute it at
 * once, each with its own workspace. ATTN_ERROR_UNSUPPORTED if nothing on the detected hardware can
 * run the problem, with every implementation's reasons. Destroy with attn_plan_destroy. */
ATTN_API attn_status attn_plan_create(attn_context *context, const attn_problem *problem,
                                      attn_plan **plan);
/* The same for an implementation that the caller names ("math/cpu/avx512", or a backend's name),
 * whatever the selector would choose: to measure the alternatives of a recommendation, for instance.
 * ATTN_ERROR_NOT_FOUND for a name that is none here, ATTN_ERROR_UNSUPPORTED with its reasons where it
 * cannot run the problem or the configuration excludes it. */
ATTN_API attn_status attn_plan_create_for(attn_context *context, const attn_problem *problem,
                                          const char *implementation, attn_plan **plan);
ATTN_API void attn_plan_destroy(attn_plan *plan);
/* Bytes attn_execute needs at `workspace`; may be 0. It will use at most these. */
ATTN_API size_t attn_plan_workspace(const attn_plan *plan);
ATTN_API attn_backend attn_plan_backend(const attn_plan *plan);
/* "flash/cpu/avx512": backend, device, ISA or architecture. Lives as long as the plan. */
ATTN_API const char *attn_plan_implementation(const attn_plan *plan);
/* The resolved problem. Lives as long as the plan. */
ATTN_API const attn_problem *attn_plan_problem(const attn_plan *plan);

/* Runs the plan. `workspace` needs attn_plan_workspace bytes (any alignment; 64 is best) and may
 * be NULL when that is 0. Checks pointers, lengths, offsets and page numbers before it writes
 * anything. Allocates nothing. Results are bitwise the same for every number of threads. */
ATTN_API attn_status attn_execute(const attn_plan *plan, const attn_io *io, void *workspace);

/* Plan, workspace and execution in one call; context NULL is the global one. */
ATTN_API attn_status attn_sdpa(attn_context *context, const attn_problem *problem, const attn_io *io);

/* The float64 reference: every product, sum, exponential in double, one row at a time; slow. Reads
 * the same problem and io as attn_execute (out, lse and weights of io are ignored). `out` receives
 * doubles [batch, heads_q, seq_q, head_dim_v] (varlen: [total_q, heads_q, head_dim_v]), contiguous;
 * `lse` (may be NULL) doubles in io.lse's order; `weights` (may be NULL) doubles in io.weights' order.
 * Thread-safe. */
ATTN_API attn_status attn_reference(const attn_problem *problem, const attn_io *io, double *out,
                                    double *lse, double *weights);

/* Merges two partial results over disjoint keys, exactly: for each of `rows` rows,
 *   lse = log(exp(lse_a) + exp(lse_b)),  out = exp(lse_a - lse) out_a + exp(lse_b - lse) out_b.
 * out_*: f32 [rows, head_dim_v] contiguous, lse_*: f32 [rows] natural log, -inf for an empty part.
 * Outputs may be the same arrays as either input. Thread-safe. */
ATTN_API attn_status attn_merge(int64_t rows, int64_t head_dim_v, const float *out_a,
                                const float *lse_a, const float *out_b, const float *lse_b,
                                float *out, float *lse);

#ifdef __cplusplus
}
#endif

#endif
