// SPDX-License-Identifier: Apache-2.0
#include "hardware/internal.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "core/status.h"

/* Units as data/README.md gives them. A profile says nothing of free memory or of cuDNN. */
#define PROFILE(name_, device_, arch_, major_, minor_, units_, gb_, gbps_, f16_, f8_, f32_, smem_, \
                l2_, mhz_, l1_, l3_, tensor_, bf16_, fp8_, isa_, flags_, certainty_)               \
  { .device = device_,                                                                             \
    .source = ATTN_SOURCE_PROFILE,                                                                 \
    .name = name_,                                                                                 \
    .arch = arch_,                                                                                 \
    .compute_major = major_,                                                                       \
    .compute_minor = minor_,                                                                       \
    .memory_total = (int64_t)(gb_) << 30,                                                          \
    .compute_units = units_,                                                                       \
    .clock_hz = (mhz_)*1e6,                                                                        \
    .bandwidth = (gbps_)*1e9,                                                                      \
    .tensor_cores = tensor_,                                                                       \
    .f16 = (device_) == ATTN_DEVICE_CPU && !((flags_)&ATTN_CPU_AVX512FP16) ? ATTN_NO : ATTN_YES,   \
    .bf16 = bf16_,                                                                                 \
    .f8 = fp8_,                                                                                    \
    .peak_f32 = (f32_)*1e12,                                                                       \
    .peak_f16 = (f16_)*1e12,                                                                       \
    .peak_bf16 = (bf16_) == ATTN_YES ? (f16_)*1e12 : 0,                                            \
    .peak_f8 = (f8_)*1e12,                                                                         \
    .shared_memory_bytes = (int64_t)(smem_)*1024,                                                  \
    .l1_bytes = (int64_t)(l1_)*1024,                                                               \
    .l2_bytes = (int64_t)(l2_)*1048576,                                                            \
    .l3_bytes = (int64_t)(l3_)*1048576,                                                            \
    .unified_memory =                                                                              \
        (device_) == ATTN_DEVICE_METAL || (device_) == ATTN_DEVICE_CPU ? ATTN_YES : ATTN_UNKNOWN,  \
    .isa = isa_,                                                                                   \
    .isa_flags = flags_,                                                                           \
    .cores_total = (device_) == ATTN_DEVICE_CPU ? (units_) : 0,                                    \
    .cache_line = (device_) == ATTN_DEVICE_CPU ? 64 : 0,                                           \
    .notes = certainty_ },

#define PROFILE_X86(vnni, bf16, fp16, amx)                                                         \
  ATTN_CPU_SSE42 | ATTN_CPU_AVX | ATTN_CPU_AVX2 | ATTN_CPU_FMA | ATTN_CPU_F16C |                   \
      ATTN_CPU_AVX512F | ATTN_CPU_AVX512BW | ATTN_CPU_AVX512DQ | ATTN_CPU_AVX512VL |               \
      ((vnni) ? ATTN_CPU_AVX512VNNI : 0) | ((bf16) ? ATTN_CPU_AVX512BF16 : 0) |                    \
      ((fp16) ? ATTN_CPU_AVX512FP16 : 0) |                                                         \
      ((amx) ? ATTN_CPU_AMX_TILE | ATTN_CPU_AMX_INT8 | ATTN_CPU_AMX_BF16 : 0)

static const attn_capability profiles[] = {
#include "hardware_profiles.inc"
};
enum { PROFILES = sizeof(profiles) / sizeof(profiles[0]) };

/* Short names, with what they leave open and why it is closed so. */
static const struct alias {
  const char *name, *profile, *why;
} aliases[] = {
  { "v100", "v100-sxm2-32", "the card of published measurements" },
  { "a100", "a100-80-sxm", "the card of published measurements" },
  { "a100-80", "a100-80-sxm", "SXM is the commoner form" },
  { "a100-40", "a100-40-sxm", "SXM is the commoner form" },
  { "h100", "h100-sxm", "SXM is the commoner form" },
  { "h100-80", "h100-sxm", "SXM is the commoner form" },
  { "h200", "h200-sxm", "SXM is the commoner form" },
  { "gh200", "gh200-96", "the first of the two memory sizes" },
  { "orin", "jetson-agx-orin-64", "the largest of its family" },
  { "jetson-orin", "jetson-agx-orin-64", "the largest of its family" },
  { "thor", "jetson-thor", "the same device" },
  { "3090", "rtx-3090", "the same device" },
  { "4090", "rtx-4090", "the same device" },
  { "5090", "rtx-5090", "the same device" },
  { "mi250x", "mi250x-gcd", "a process sees each of the two dies as a device" },
  { "mi250", "mi250x-gcd", "a process sees each of the two dies as a device" },
  { "mi300", "mi300x", "the accelerator without CPU cores" },
  { "7900-xtx", "rx-7900-xtx", "the same device" },
  { "ponte-vecchio", "max-1550", "its largest card" },
  { "a770", "arc-a770", "the same device" },
  { "b580", "arc-b580", "the same device" },
};
enum { ALIASES = sizeof(aliases) / sizeof(aliases[0]) };

/* Names as drivers report them. */
static const struct device_name {
  const char *device, *profile;
} device_names[] = {
  { "Tesla V100-SXM2-32GB", "v100-sxm2-32" },
  { "Tesla T4", "t4" },
  { "NVIDIA A100-SXM4-40GB", "a100-40-sxm" },
  { "NVIDIA A100-SXM4-80GB", "a100-80-sxm" },
  { "NVIDIA A100 80GB PCIe", "a100-80-pcie" },
  { "NVIDIA A30", "a30" },
  { "NVIDIA A10", "a10" },
  { "NVIDIA A40", "a40" },
  { "NVIDIA GeForce RTX 3090", "rtx-3090" },
  { "NVIDIA L4", "l4" },
  { "NVIDIA L40S", "l40s" },
  { "NVIDIA GeForce RTX 4090", "rtx-4090" },
  { "NVIDIA H100 80GB HBM3", "h100-sxm" },
  { "NVIDIA H100 PCIe", "h100-pcie" },
  { "NVIDIA H100 NVL", "h100-nvl" },
  { "NVIDIA H200", "h200-sxm" },
  { "NVIDIA H20", "h20" },
  { "NVIDIA GH200 480GB", "gh200-96" },
  { "NVIDIA B200", "b200" },
  { "NVIDIA GB200", "gb200" },
  { "NVIDIA GB300", "gb300" },
  { "NVIDIA GeForce RTX 5090", "rtx-5090" },
  { "NVIDIA RTX PRO 6000 Blackwell Workstation Edition", "rtx-pro-6000" },
  { "AMD Instinct MI210", "mi210" },
  { "AMD Instinct MI250X", "mi250x-gcd" },
  { "AMD Instinct MI300X", "mi300x" },
  { "AMD Instinct MI325X", "mi325x" },
  { "AMD Instinct MI355X", "mi355x" },
  { "AMD Radeon RX 7900 XTX", "rx-7900-xtx" },
};
enum { DEVICE_NAMES = sizeof(device_names) / sizeof(device_names[0]) };

int attn_profile_count(void) { return PROFILES; }

const attn_capability *attn_profile_get(int index) {
  return index >= 0 && index < PROFILES ? &profiles[index] : NULL;
}

static const attn_capability *find_exact(const char *name) {
  for (int i = 0; i < PROFILES; i++)
    if (hardware_names_equal(name, profiles[i].name)) return &profiles[i];
  return NULL;
}

const attn_capability *hardware_profile_of_device(const char *device_name, int compute_major,
                                                  int compute_minor, int compute_units) {
  for (int i = 0; i < DEVICE_NAMES; i++) {
    if (strcmp(device_name, device_names[i].device) != 0) continue;
    const attn_capability *profile = find_exact(device_names[i].profile);
    if (profile && profile->compute_major == compute_major &&
        profile->compute_minor == compute_minor && profile->compute_units == compute_units)
      return profile;
  }
  return NULL;
}

/* Levenshtein's distance from `a` to the nearest prefix of `b` (names go from general to special),
 * ignoring case; both shorter than 64. */
static int prefix_distance(const char *a, const char *b) {
  int row[64];
  int n = (int)strlen(b);
  for (int j = 0; j <= n; j++) row[j] = j;
  for (int i = 0; a[i]; i++) {
    int diagonal = row[0];
    row[0] = i + 1;
    for (int j = 0; j < n; j++) {
      int change = diagonal + (tolower((unsigned char)a[i]) != tolower((unsigned char)b[j]));
      diagonal = row[j + 1];
      int best = diagonal < row[j] ? diagonal + 1 : row[j] + 1;
      row[j + 1] = best < change ? best : change;
    }
  }
  int least = row[0];
  for (int j = 1; j <= n; j++) least = row[j] < least ? row[j] : least;
  return least;
}

static bool contains(const char *text, const char *part) {
  size_t length = strlen(part);
  for (; *text; text++) {
    size_t i = 0;
    while (i < length && tolower((unsigned char)text[i]) == tolower((unsigned char)part[i])) i++;
    if (i == length) return true;
  }
  return false;
}

/* Five profile names: those that hold `name`, then the least edits. */
static void nearest_names(const char *name, char *list, size_t size) {
  bool used[PROFILES] = { false };
  size_t length = 0;
  list[0] = '\0';
  for (int pick = 0; pick < 5; pick++) {
    int best = -1, best_score = 1000;
    for (int i = 0; i < PROFILES; i++) {
      bool inside = name[0] && contains(profiles[i].name, name);
      int score = inside ? -1 : prefix_distance(name, profiles[i].name);
      if (!used[i] && score < best_score) best = i, best_score = score;
    }
    if (best < 0) break;
    used[best] = true;
    int n = snprintf(list + length, size - length, "%s%s", pick ? ", " : "", profiles[best].name);
    if (n < 0 || (size_t)n >= size - length) break;
    length += (size_t)n;
  }
}

attn_status attn_profile_find(const char *name, attn_capability *capability) {
  if (!name) return core_fail(ATTN_ERROR_NULL, "name is NULL");
  if (!capability) return core_fail(ATTN_ERROR_NULL, "capability is NULL");
  const attn_capability *profile = find_exact(name);
  if (profile) {
    *capability = *profile;
    return ATTN_OK;
  }
  for (int i = 0; i < ALIASES; i++) {
    if (!hardware_names_equal(name, aliases[i].name)) continue;
    profile = find_exact(aliases[i].profile);
    if (!profile) continue;
    *capability = *profile;
    hardware_note(hardware_notes_of(capability), "%s taken for %s: %s", aliases[i].name,
                  profile->name, aliases[i].why);
    return ATTN_OK;
  }
  char asked[64], list[256];
  hardware_text_copy(asked, sizeof asked, name);
  nearest_names(asked, list, sizeof list);
  return core_fail(ATTN_ERROR_NOT_FOUND, "no hardware profile is named '%s'; nearest: %s", asked,
                   list);
}
