// SPDX-License-Identifier: Apache-2.0
/*
 * Choosing a backend, and the reasons. Selection needs no data and no device memory; it works for
 * hardware that is not there (attn_config.capability).
 */
#ifndef ATTN_SELECT_H
#define ATTN_SELECT_H

#include "attn/attn.h"
#include "attn/hardware.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Why an implementation cannot run, or may not be used for, a problem. */
typedef enum attn_reason_code {
  ATTN_REASON_NONE = 0,
  ATTN_REASON_DEVICE_ABSENT,         /* no device of this type on this machine / in this profile */
  ATTN_REASON_PLUGIN_ABSENT,         /* the device is there, its plug-in is not */
  ATTN_REASON_COMPUTE_CAPABILITY,    /* value, limit: major.minor */
  ATTN_REASON_ARCH,                  /* architecture not among those supported */
  ATTN_REASON_ISA,                   /* no usable kernel for this CPU */
  ATTN_REASON_DTYPE,                 /* value: attn_dtype */
  ATTN_REASON_KV_DTYPE,
  ATTN_REASON_OUT_DTYPE,
  ATTN_REASON_HEAD_DIM_LARGE,        /* value, limit */
  ATTN_REASON_HEAD_DIM_MULTIPLE,     /* value, limit: must be a multiple of */
  ATTN_REASON_HEAD_DIM_PAIR,         /* head_dim and head_dim_v may not differ like this */
  ATTN_REASON_HEAD_DIM_SET,          /* not one of the head sizes that exist */
  ATTN_REASON_MASK,                  /* takes no mask tensor (of this kind, in this version) */
  ATTN_REASON_CAUSAL_ALIGNMENT,
  ATTN_REASON_WINDOW,
  ATTN_REASON_SOFTCAP,
  ATTN_REASON_ALIBI,
  ATTN_REASON_SINKS,
  ATTN_REASON_SCORE_MOD,
  ATTN_REASON_DROPOUT,               /* value */
  ATTN_REASON_GQA,
  ATTN_REASON_VARLEN,                /* cannot run packed sequences */
  ATTN_REASON_NOT_VARLEN,            /* runs packed sequences only */
  ATTN_REASON_PAGED,
  ATTN_REASON_PREFIX,                /* value: keys of a shared prefix */
  ATTN_REASON_PAGE_SIZE,             /* value, limit: must be a multiple of */
  ATTN_REASON_KV_LENGTHS,
  ATTN_REASON_LSE,
  ATTN_REASON_WEIGHTS,
  ATTN_REASON_INNER_STRIDE,          /* value, limit 1 */
  ATTN_REASON_BATCH_LARGE,           /* value, limit */
  ATTN_REASON_HEADS_LARGE,
  ATTN_REASON_SEQ_Q_LARGE,           /* value, limit: schedule for few queries */
  ATTN_REASON_SEQ_SMALL,             /* value, limit */
  ATTN_REASON_VERSION,               /* library version; value, limit */
  ATTN_REASON_DETERMINISTIC,         /* results do not repeat */
  ATTN_REASON_BATCH_INVARIANT,       /* a row's bits depend on the others */
  ATTN_REASON_DISABLED,              /* attn_config.disabled */
  ATTN_REASON_FLASH_MIN_SEQ_LEN,     /* value, limit */
  ATTN_REASON_MEMORY_BUDGET,         /* bytes needed, budget */
  ATTN_REASON_MEMORY_DEVICE,         /* bytes needed, bytes the device has */
  ATTN_REASON_DEBUG,                 /* debug gives math */
  ATTN_REASON_STRICT,                /* strict demands another backend */
  ATTN_REASON_FP8_SCALE,             /* value: attn_fp8_scale */
  ATTN_REASON_COUNT
} attn_reason_code;

typedef struct attn_reason {
  attn_reason_code code;
  double value, limit; /* as the code says; NAN where it has none */
} attn_reason;

/* "compute_capability", ...: stable names for files and JSON; NULL if unknown. */
ATTN_API const char *attn_reason_name(attn_reason_code code);
/* One sentence with value and limit, e.g. "needs compute capability 9.0, device has 8.0". Returns
 * the length the whole text has (as snprintf). Thread-safe. */
ATTN_API int attn_reason_text(const attn_reason *reason, char *buffer, size_t size);

typedef enum attn_choice_source {
  ATTN_CHOICE_HEURISTIC = 0, /* facts for a cost are missing: a fixed order decided */
  ATTN_CHOICE_MODEL,         /* cost model */
  ATTN_CHOICE_MEASURED,      /* recorded measurements */
  ATTN_CHOICE_FORCED,        /* preferred, debug, or the only one left */
  ATTN_CHOICE_SOURCE_COUNT
} attn_choice_source;
ATTN_API const char *attn_choice_source_name(attn_choice_source source);

enum { ATTN_MAX_CANDIDATES = 32, ATTN_MAX_REASONS = 256, ATTN_IMPLEMENTATION_NAME = 32 };

typedef struct attn_alternative {
  attn_backend backend;
  char implementation[ATTN_IMPLEMENTATION_NAME];
  double score;            /* cost of the winner over this one's, by the objective: (0, 1] */
  double time;             /* expected seconds; NAN if unknown */
  int64_t workspace_bytes;
  attn_choice_source source; /* what the time rests on */
} attn_alternative;

typedef struct attn_rejection {
  attn_backend backend;
  char implementation[ATTN_IMPLEMENTATION_NAME];
  int first_reason, reason_count; /* in attn_recommendation.reasons */
} attn_rejection;

/* Alternatives never contain the winner and are sorted by score, best first. */
typedef struct attn_recommendation {
  attn_backend backend;
  char implementation[ATTN_IMPLEMENTATION_NAME]; /* "flash/cuda" */
  attn_device_type device;
  attn_choice_source source;
  bool predicted;          /* for a device that is not here (profile, file): cannot be executed here */
  double confidence;       /* probability that nothing available is more than 5 % faster */
  double time;             /* expected seconds of one call; NAN if unknown */
  double speedup;          /* over math on the same device; NAN if unknown */
  int64_t memory_bytes;    /* inputs, outputs and workspace */
  int64_t workspace_bytes;
  double flops;            /* the work it will do */
  double bytes;            /* bytes it will move */
  int splits;              /* over keys */
  char reason[320];        /* one sentence or two, with the numbers that decided */

  int alternative_count;
  int rejection_count;
  int reason_count;
  attn_alternative alternatives[ATTN_MAX_CANDIDATES];
  attn_rejection rejections[ATTN_MAX_CANDIDATES];
  attn_reason reasons[ATTN_MAX_REASONS];
} attn_recommendation;

/* Chooses for the problem. ATTN_ERROR_UNSUPPORTED or ATTN_ERROR_MEMORY_BUDGET when nothing is left:
 * the recommendation then holds backend ATTN_BACKEND_AUTO and the rejections (this is the one output
 * that a failure fills). Answers are cached. Thread-safe. */
ATTN_API attn_status attn_select(attn_context *context, const attn_problem *problem,
                                 attn_recommendation *recommendation);

/* A tensor's description. shape and strides as in [batch, heads, seq, dim]; strides all 0:
 * contiguous. */
typedef struct attn_tensor {
  attn_dtype dtype;
  int64_t shape[4];
  int64_t strides[4];
} attn_tensor;

/* Fills sizes, dtypes and strides of *problem from q, k, v and leaves the rest as it is. Fails on
 * disagreeing batch, key length, head counts, head_dim or kv dtypes. */
ATTN_API attn_status attn_problem_from_tensors(const attn_tensor *q, const attn_tensor *k,
                                               const attn_tensor *v, attn_problem *problem);
/* attn_select for the problem the three tensors make, with the given causality. */
ATTN_API attn_status attn_select_tensors(attn_context *context, const attn_tensor *q,
                                         const attn_tensor *k, const attn_tensor *v,
                                         attn_causal causal, attn_recommendation *recommendation);
/* Short form: self-attention of one head, f16 on devices with f16 matrix units, else f32. */
ATTN_API attn_status attn_select_simple(attn_context *context, int64_t seq_len, int64_t head_dim,
                                        int64_t batch, attn_recommendation *recommendation);

/* Records a measured time of an implementation ("flash/cpu/avx512", or a backend's name for its
 * implementation on the context's device) on a problem. The context keeps the latest 1000. Three or
 * more agreeing records of a problem override the model for it. Thread-safe. */
ATTN_API attn_status attn_record(attn_context *context, const attn_problem *problem,
                                 const char *implementation, double seconds);
ATTN_API int attn_record_count(const attn_context *context);
ATTN_API void attn_record_clear(attn_context *context);

typedef struct attn_cache_stats {
  int64_t hits, misses;
  int entries, capacity;
} attn_cache_stats;
ATTN_API void attn_cache_clear(attn_context *context);
ATTN_API attn_cache_stats attn_cache_statistics(const attn_context *context);

#ifdef __cplusplus
}
#endif

#endif
