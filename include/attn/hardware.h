// SPDX-License-Identifier: Apache-2.0
/*
 * What hardware there is: detected on this machine, or described by a profile. A field that is not
 * known is 0 (numbers), ATTN_UNKNOWN or "": no number is invented. `source` tells where the facts
 * come from and `notes` what could not be found out.
 */
#ifndef ATTN_HARDWARE_H
#define ATTN_HARDWARE_H

#include "attn/attn.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum attn_known { ATTN_UNKNOWN = 0, ATTN_NO, ATTN_YES } attn_known;

typedef enum attn_capability_source {
  ATTN_SOURCE_NONE = 0,
  ATTN_SOURCE_DETECTED,           /* read from this machine */
  ATTN_SOURCE_PROFILE,            /* a named profile of the library */
  ATTN_SOURCE_COMPUTE_CAPABILITY, /* only what follows from a CUDA compute capability */
  ATTN_SOURCE_FILE,               /* a profile file */
  ATTN_SOURCE_COUNT
} attn_capability_source;

typedef struct attn_capability {
  attn_device_type device;
  attn_capability_source source;
  int device_index;   /* among devices of this type; detected ones only */
  char name[64];      /* "NVIDIA H100 80GB HBM3", "AMD EPYC 9xx5"; a profile's name */
  char arch[32];      /* "Hopper", "gfx942", "apple8"; a CPU's ISA level, extensions */
  int compute_major, compute_minor; /* CUDA compute capability; 0.0 elsewhere */
  int64_t memory_total;             /* bytes; on the CPU within the cgroup's limit */
  int64_t memory_available;         /* bytes at detection */
  int compute_units;                /* SMs, CUs, GPU cores; on the CPU the cores this process may use */
  double clock_hz;                  /* boost clock; on the CPU measured when peaks are */
  double bandwidth;                 /* bytes/s from memory, all units */
  attn_known tensor_cores, f16, bf16, f8; /* matrix units; arithmetic in these types */
  double peak_f32, peak_f16, peak_bf16, peak_f8; /* FLOP/s, dense, all units; f16/bf16 with f32 sums */
  int64_t shared_memory_bytes;      /* per compute unit (GPU) */
  int64_t l1_bytes, l2_bytes, l3_bytes; /* CPU: L1d and L2 of one core, L3 of one domain; GPU: l2 */
  int cudnn_version;                /* as cudnnGetVersion(): 90501; 0 unknown or absent */
  attn_known unified_memory;        /* CPU and device share memory */

  /* CPU only. */
  attn_isa isa;                     /* best level the library has kernels for */
  int isa_flags;                    /* attn_isa_flag bits, what the CPU and OS support */
  int cores_total;                  /* cores online, before affinity and cgroup */
  int numa_nodes;
  int cache_line;

  char notes[384];                  /* what could not be detected and why, "; " between notes */
} attn_capability;

typedef enum attn_isa_flag {
  ATTN_CPU_SSE42 = 1 << 0,
  ATTN_CPU_AVX = 1 << 1,
  ATTN_CPU_AVX2 = 1 << 2,
  ATTN_CPU_FMA = 1 << 3,
  ATTN_CPU_F16C = 1 << 4,
  ATTN_CPU_AVX512F = 1 << 5,
  ATTN_CPU_AVX512BW = 1 << 6,
  ATTN_CPU_AVX512DQ = 1 << 7,
  ATTN_CPU_AVX512VL = 1 << 8,
  ATTN_CPU_AVX512VNNI = 1 << 9,
  ATTN_CPU_AVX512BF16 = 1 << 10,
  ATTN_CPU_AVX512FP16 = 1 << 11,
  ATTN_CPU_AVXVNNI = 1 << 12,
  ATTN_CPU_AMX_TILE = 1 << 13,
  ATTN_CPU_AMX_INT8 = 1 << 14,
  ATTN_CPU_AMX_BF16 = 1 << 15,
  ATTN_CPU_NEON = 1 << 16,
  ATTN_CPU_ARM_DOT = 1 << 17,
  ATTN_CPU_ARM_BF16 = 1 << 18,
  ATTN_CPU_ARM_I8MM = 1 << 19,
  ATTN_CPU_SVE = 1 << 20,
  ATTN_CPU_ARM_FP16 = 1 << 21 /* arithmetic, not conversions alone */
} attn_isa_flag;

/* "avx512bf16", ...; NULL unless exactly one known bit is set. Thread-safe. */
ATTN_API const char *attn_isa_flag_name(int flag);

/* Devices of this machine, the CPU first. Writes up to `capacity` and returns how many there are
 * (0 never: the CPU is always there). `notes` (may be NULL) receives why kinds of devices were not
 * found ("cuda: libcuda.so.1 not found; ..."). Opens driver libraries at run time and keeps them open;
 * takes no lock on and leaves no context in a driver. Where a CUDA or HIP driver is installed it is
 * initialised (cuInit), which takes a fraction of a second the first time and, as with any use of
 * those drivers, must not happen before a fork() whose child uses them. Thread-safe. */
ATTN_API int attn_hardware_detect(attn_capability *devices, int capacity, char *notes,
                                  size_t notes_size);

/* Measures the CPU's peaks and memory bandwidth on all usable cores (about 20 ms; once a process, later
 * calls copy) and fills peak_f32, peak_bf16 (0 without bf16 arithmetic), bandwidth and clock_hz of `cpu`,
 * which attn_hardware_detect filled. A host whose cores are busy gets the speed that was left. Starts threads that have ended
 * when it returns. Thread-safe. */
ATTN_API attn_status attn_hardware_measure(attn_capability *cpu);

/* What a number of threads of this machine reaches, all at once. */
typedef struct attn_limits {
  int threads;
  double f32_flops;      /* FLOP/s of f32 multiply-adds with the widest vectors the CPU has */
  double bf16_flops;     /* FLOP/s of bf16 dot products with f32 sums; 0 where the CPU has none */
  double read_bandwidth; /* bytes/s read from memory, none of it cached */
  double clock_hz;       /* while all threads work */
} attn_limits;

/* Measures anew at every call, with care: upper quartiles of windows over 0.3 to 1 s, and up to
 * 512 MiB of memory for the time of the call. `threads` 0: the cores this process may use. What an implementation reaches
 * is a share of these. Thread-safe, but concurrent calls disturb each other's numbers. */
ATTN_API attn_status attn_hardware_limits(int threads, attn_limits *limits);

/* Named profiles. */
ATTN_API int attn_profile_count(void);
ATTN_API const attn_capability *attn_profile_get(int index); /* NULL outside [0, count) */
/* ATTN_ERROR_NOT_FOUND lists the names nearest to `name`. */
ATTN_API attn_status attn_profile_find(const char *name, attn_capability *capability);

/* What follows from a CUDA compute capability alone (tensor cores, dtypes, shared memory); the rest
 * unknown. ATTN_ERROR_VALUE for a pair that no released architecture has. */
ATTN_API attn_status attn_capability_from_compute(int major, int minor, attn_capability *capability);

/* Reads a profile file: first line "attn-profile 1", then "key value" lines with the keys of
 * attn_capability_format; unknown keys are skipped and named in `notes`. Missing facts stay unknown. */
ATTN_API attn_status attn_capability_read(const char *path, attn_capability *capability);
/* Formats a capability as such a file's text. Returns the length the whole text has. */
ATTN_API int attn_capability_format(const attn_capability *capability, char *buffer, size_t size);

/* One ISA level of the CPU kernels. */
typedef struct attn_kernel_info {
  attn_isa isa;
  const char *name;      /* "avx512" */
  bool supported;        /* this CPU and OS can run it */
  bool checked;          /* the self-check against scalar has run */
  bool ok;               /* ... and agreed; otherwise the level is not used */
  const char *reason;    /* "" or why it is not usable; static storage */
  int queries_per_tile;  /* tile width */
} attn_kernel_info;

/* Levels from oldest to newest; runs each self-check once. Returns how many there are. Thread-safe. */
ATTN_API int attn_kernels(attn_kernel_info *kernels, int capacity);

#ifdef __cplusplus
}
#endif

#endif
