// SPDX-License-Identifier: Apache-2.0
/* The words of the interface and their spellings. */
#include <stdio.h>
#include <string.h>

#include "attn/attn.h"
#include "core/dtype.h"
#include "core/size.h"
#include "core/status.h"

static const struct {
  const char *name, *display;
} backends[ATTN_BACKEND_COUNT] = {
  [ATTN_BACKEND_AUTO] = { "auto", "automatic" },
  [ATTN_BACKEND_FLASH] = { "flash", "FlashAttention" },
  [ATTN_BACKEND_FLASH_V3] = { "flash_v3", "FlashAttention-3" },
  [ATTN_BACKEND_MATH] = { "math", "Math" },
  [ATTN_BACKEND_MEMORY_EFFICIENT] = { "memory_efficient", "Memory-Efficient" },
  [ATTN_BACKEND_CUDNN] = { "cudnn", "cuDNN" },
  [ATTN_BACKEND_METAL] = { "metal", "Metal" },
  [ATTN_BACKEND_CPU] = { "cpu", "CPU" },
  [ATTN_BACKEND_VARLEN] = { "varlen", "VarLen" },
  [ATTN_BACKEND_FLASH_DECODE] = { "flash_decode", "Flash Decoding" },
};

static const char *const devices[ATTN_DEVICE_TYPE_COUNT] = { "cpu", "cuda", "rocm", "metal",
                                                             "xpu" };
static const char *const isas[ATTN_ISA_COUNT] = { "auto",   "scalar",     "avx2", "avx512",
                                                  "avx512bf16", "amx",    "neon" };

const char *attn_backend_name(attn_backend backend) {
  return (unsigned)backend < ATTN_BACKEND_COUNT ? backends[backend].name : NULL;
}

const char *attn_backend_display_name(attn_backend backend) {
  return (unsigned)backend < ATTN_BACKEND_COUNT ? backends[backend].display : NULL;
}

const char *attn_device_type_name(attn_device_type type) {
  return (unsigned)type < ATTN_DEVICE_TYPE_COUNT ? devices[type] : NULL;
}

const char *attn_isa_name(attn_isa isa) {
  return (unsigned)isa < ATTN_ISA_COUNT ? isas[isa] : NULL;
}

/* Index of `name`, or -1 with the error, which lists the names. */
static int find(const char *what, const char *name, const char *(*name_of)(int), int count) {
  char list[256] = "";
  size_t at = 0;
  for (int i = 0; i < count; i++)
    if (!strcmp(name, name_of(i))) return i;
  for (int i = 0; i < count && at < sizeof(list); i++)
    at += (size_t)snprintf(list + at, sizeof(list) - at, "%s%s", i ? ", " : "", name_of(i));
  core_fail(ATTN_ERROR_NOT_FOUND, "no %s \"%.40s\"; there are %s", what, name, list);
  return -1;
}

static const char *backend_at(int i) { return backends[i].name; }
static const char *isa_at(int i) { return isas[i]; }

attn_status attn_backend_from_name(const char *name, attn_backend *backend) {
  if (!name || !backend) return core_fail(ATTN_ERROR_NULL, "%s is NULL", name ? "backend" : "name");
  int i = find("backend", name, backend_at, ATTN_BACKEND_COUNT);
  if (i < 0) return ATTN_ERROR_NOT_FOUND;
  *backend = (attn_backend)i;
  return ATTN_OK;
}

attn_status attn_isa_from_name(const char *name, attn_isa *isa) {
  if (!name || !isa) return core_fail(ATTN_ERROR_NULL, "%s is NULL", name ? "isa" : "name");
  int i = find("ISA level", name, isa_at, ATTN_ISA_COUNT);
  if (i < 0) return ATTN_ERROR_NOT_FOUND;
  *isa = (attn_isa)i;
  return ATTN_OK;
}

const char *attn_dtype_name(attn_dtype dtype) {
  if (dtype == ATTN_DTYPE_DEFAULT) return "default";
  const dtype_info *info = dtype_get(dtype);
  return info ? info->name : NULL;
}

int64_t attn_dtype_bytes(attn_dtype dtype, int64_t count) {
  const dtype_info *info = dtype_get(dtype);
  int64_t bytes;
  if (!info || count < 0 || count % info->block) return -1;
  return size_mul(count / info->block, info->block_bytes, &bytes) ? bytes : -1;
}
