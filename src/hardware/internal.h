// SPDX-License-Identifier: Apache-2.0
#ifndef HARDWARE_INTERNAL_H
#define HARDWARE_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "attn/hardware.h"

/* ---- Text -------------------------------------------------------------------------------- */

/* Where notes go: appended with "; " between, cut with "..." when full. `text` may be NULL. */
typedef struct hardware_notes {
  char *text;
  size_t size;
} hardware_notes;

void hardware_note(hardware_notes notes, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* The capability's own. */
hardware_notes hardware_notes_of(attn_capability *capability);

/* Copies at most size - 1 bytes and makes what is not printable ASCII a '?': names come from
 * drivers and files and end in terminals and JSON. Leading and trailing blanks go, runs shrink. */
void hardware_text_copy(char *out, size_t size, const char *in);
/* Equal but for case and the separators '-', '_', ' '. */
bool hardware_names_equal(const char *a, const char *b);

/* ---- Files ------------------------------------------------------------------------------- */

/* Functions below that take `root` read root/proc/... and root/sys/...; "" is this machine. */

enum { HARDWARE_PATH = 1024 };

/* snprintf that says false, and gives "", where the text does not fit. */
bool hardware_path(char *path, size_t size, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Reads at most size - 1 bytes of a small file and ends them with NUL. Length, or -1. */
int64_t hardware_file_read(const char *root, const char *path, char *buffer, size_t size);
/* The file's one non-negative decimal number, or -1 (missing, "max", negative, garbage, >
 * INT64_MAX). */
int64_t hardware_file_number(const char *root, const char *path);
/* How many numbers a list such as "0-3,8,10-11" holds; 0 when it is malformed. */
int hardware_list_count(const char *list);

/* ---- The CPU ----------------------------------------------------------------------------- */

void hardware_cpu_detect(attn_capability *cpu);

/* What CPUID and XGETBV say; zero where a leaf does not exist. */
typedef struct hardware_cpuid {
  uint32_t leaf1_ecx, leaf1_edx;
  uint32_t leaf7_ebx, leaf7_ecx, leaf7_edx, leaf7_1_eax;
  uint64_t xcr0; /* 0 without OSXSAVE */
} hardware_cpuid;

/* attn_isa_flag bits that CPU and operating system both support. */
int hardware_x86_flags(const hardware_cpuid *id, hardware_notes notes);
int hardware_arm_flags(unsigned long hwcap, unsigned long hwcap2);
/* "Arm Neoverse V1" from the first processor of /proc/cpuinfo's text; "" when not known. */
void hardware_arm_name(const char *cpuinfo, char *name, size_t size);

/* Of this CPU; both do nothing on the other's architecture. hardware_arm_detect returns the bits of
 * an SVE vector as this process has them, 0 if there are none or it cannot tell. */
void hardware_x86_detect(attn_capability *cpu);
int hardware_arm_detect(attn_capability *cpu);

/* Best level that the library has kernels for. */
attn_isa hardware_isa(int flags);
/* "avx512 bf16 vnni", "neon bf16 fp16 dot i8mm sve256"; sve_bits 0: not known. */
void hardware_arch(int flags, int sve_bits, char *arch, size_t size);

/* Bytes of memory within the process's cgroup limits. 0 when unknown. */
typedef struct hardware_memory {
  int64_t total, available;
} hardware_memory;
void hardware_memory_read(const char *root, hardware_memory *memory, hardware_notes notes);

/* Caches as CPU number `cpu` sees them. 0 when unknown. */
typedef struct hardware_topology {
  int64_t l1_bytes, l2_bytes, l3_bytes; /* L1d and one core's share of L2; one L3 */
  int l3_cpus;                          /* CPUs that share that L3 */
  int cache_line;
  int numa_nodes; /* with CPUs */
} hardware_topology;
void hardware_topology_read(const char *root, int cpu, hardware_topology *topology);
/* This machine's: sysfs, else hwloc or the system's calls. */
void hardware_topology_detect(hardware_topology *topology, hardware_notes notes);

/* ---- Facts ------------------------------------------------------------------------------- */

/* attn_capability_from_compute without an error text. */
bool hardware_compute_facts(int major, int minor, attn_capability *capability);

/* ---- Profiles ---------------------------------------------------------------------------- */

/* The profile that the maker's device name stands for, provided that compute capability and units
 * agree (a name may cover several cards, a partition has fewer units); NULL if there is none. */
const attn_capability *hardware_profile_of_device(const char *device_name, int compute_major,
                                                  int compute_minor, int compute_units);

/* Reads profile text; `where` names it in errors. */
attn_status hardware_capability_parse(const char *text, size_t length, const char *where,
                                      attn_capability *capability);

/* ---- GPUs -------------------------------------------------------------------------------- */

/* Libraries to open, tried in order, so that tests can put their own in place; NULL ends a list. */
typedef struct hardware_drivers {
  const char *root; /* of /dev and /sys */
  const char *cuda[4], *nvml[4], *cudnn[4], *hip[6], *opencl[4];
} hardware_drivers;
const hardware_drivers *hardware_drivers_default(void);

/* Each writes up to `capacity` devices and returns how many there are; why there are none, or what
 * concerns them all, goes to `notes`. */
int hardware_cuda_detect(const hardware_drivers *drivers, attn_capability *devices, int capacity,
                         hardware_notes notes);
int hardware_rocm_detect(const hardware_drivers *drivers, attn_capability *devices, int capacity,
                         hardware_notes notes);
int hardware_metal_detect(const hardware_drivers *drivers, attn_capability *devices, int capacity,
                          hardware_notes notes);
int hardware_xpu_detect(const hardware_drivers *drivers, attn_capability *devices, int capacity,
                        hardware_notes notes);
int hardware_detect_with(const hardware_drivers *drivers, attn_capability *devices, int capacity,
                         hardware_notes notes);

/* What follows from an AMD architecture ("gfx942"): matrix units and types. */
void hardware_rocm_arch(const char *arch, attn_capability *capability);

/* Opens the first library of a list that there is, and never closes it: drivers start threads and
 * do not survive that. NULL with a note if there is none. */
void *hardware_library_open(const char *kind, const char *const *names, hardware_notes notes);

/* A function of a library and where its address goes. */
typedef struct hardware_symbol {
  const char *name;
  void *address; /* of a function pointer */
  bool needed;   /* without it nothing can be found out */
} hardware_symbol;
/* Sets those pointers, NULL where the library lacks the function. False with a note where that was
 * needed. */
bool hardware_library_load(const char *kind, void *library, const hardware_symbol *symbols,
                           int count, hardware_notes notes);

/* Peaks of the profile that the device's name stands for, with a note; nothing if there is none. */
void hardware_peaks_from_profile(attn_capability *device);

#endif
