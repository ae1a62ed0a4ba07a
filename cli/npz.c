// SPDX-License-Identifier: Apache-2.0
/* .npz is a ZIP archive of .npy members (PKWARE APPNOTE 6.3, section 4). The central directory is
 * what is believed; a local header has to agree with it. */
#include "array.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

/* A symbol pair of deflate has at least 2 bits and gives at most 258 bytes: 8 * 258 / 2. */
enum { DEFLATE_RATIO = 1032 };

enum { LOCAL_BYTES = 30, CENTRAL_BYTES = 46, END_BYTES = 22, LOCATOR_BYTES = 20, END64_BYTES = 56 };

typedef struct zip {
  const unsigned char *bytes;
  size_t size;
  uint64_t directory, directory_end, entries;
  char *err;
  size_t err_size;
} zip;

typedef struct zip_entry {
  const char *name;
  size_t name_length;
  unsigned flags, method;
  uint32_t crc;
  uint64_t packed, unpacked, offset;
  char text[ARRAY_NAME_TEXT];
} zip_entry;

static unsigned u16(const unsigned char *b) { return (unsigned)b[0] | (unsigned)b[1] << 8; }
static uint32_t u32(const unsigned char *b) {
  return (uint32_t)u16(b) | (uint32_t)u16(b + 2) << 16;
}
static uint64_t u64(const unsigned char *b) { return u32(b) | (uint64_t)u32(b + 4) << 32; }

/* Whether `length` bytes lie at `offset` before `end`. */
static bool within(uint64_t offset, uint64_t length, uint64_t end) {
  return offset <= end && length <= end - offset;
}

static bool has_locator(const zip *z, size_t end) {
  return end >= LOCATOR_BYTES && u32(z->bytes + end - LOCATOR_BYTES) == 0x07064b50;
}

static int find_end64(zip *z, size_t end) {
  if (!has_locator(z, end))
    return array_fail(z->err, z->err_size, "npz lacks the ZIP64 locator that its end asks for");
  size_t locator = end - LOCATOR_BYTES;
  uint64_t at = u64(z->bytes + locator + 8);
  if (!within(at, END64_BYTES, locator) || u32(z->bytes + at) != 0x06064b50)
    return array_fail(z->err, z->err_size, "npz has no ZIP64 end record at byte %" PRIu64, at);
  const unsigned char *b = z->bytes + at;
  uint64_t length = u64(b + 40);
  if (u32(b + 16) != 0 || u32(b + 20) != 0 || u64(b + 24) != u64(b + 32))
    return array_fail(z->err, z->err_size, "npz spans several disks, which is not supported");
  z->entries = u64(b + 32);
  z->directory = u64(b + 48);
  if (!within(z->directory, length, at))
    return array_fail(z->err, z->err_size, "npz central directory lies outside the file");
  z->directory_end = z->directory + length;
  return 0;
}

static int find_end(zip *z) {
  if (z->size < END_BYTES)
    return array_fail(z->err, z->err_size, "npz file of %zu bytes is shorter than any ZIP archive",
                      z->size);
  size_t furthest = z->size - END_BYTES, end = furthest;
  size_t nearest = furthest > 0xffff ? furthest - 0xffff : 0;
  while (u32(z->bytes + end) != 0x06054b50 || u16(z->bytes + end + 20) != furthest - end)
    if (end-- == nearest)
      return array_fail(z->err, z->err_size,
                        "npz has no end record (not a ZIP archive, or cut short)");
  const unsigned char *b = z->bytes + end;
  uint64_t length = u32(b + 12);
  z->entries = u16(b + 10);
  z->directory = u32(b + 16);
  if (length == 0xffffffff || z->directory == 0xffffffff ||
      (z->entries == 0xffff && has_locator(z, end))) /* 65535 entries can also be just that */
    return find_end64(z, end);
  if (u16(b + 4) != 0 || u16(b + 6) != 0 || u16(b + 8) != u16(b + 10))
    return array_fail(z->err, z->err_size, "npz spans several disks, which is not supported");
  if (!within(z->directory, length, end))
    return array_fail(z->err, z->err_size, "npz central directory lies outside the file");
  z->directory_end = z->directory + length;
  return 0;
}

/* The ZIP64 field holds, in this order, just those values that overflowed theirs. */
static int widen(const zip *z, zip_entry *e, const unsigned char *extra, size_t length) {
  uint64_t *fields[3] = { &e->unpacked, &e->packed, &e->offset };
  bool wide = false;
  for (int i = 0; i < 3; i++) wide = wide || *fields[i] == 0xffffffff;
  if (!wide) return 0;
  while (length >= 4) {
    size_t field = u16(extra + 2);
    if (field > length - 4) break;
    if (u16(extra) != 1) {
      extra += 4 + field;
      length -= 4 + field;
      continue;
    }
    const unsigned char *at = extra + 4;
    for (int i = 0; i < 3; i++) {
      if (*fields[i] != 0xffffffff) continue;
      if (field < 8) goto bad;
      *fields[i] = u64(at);
      at += 8;
      field -= 8;
    }
    return 0;
  }
bad:
  return array_fail(z->err, z->err_size, "npz member '%s' lacks its ZIP64 sizes", e->text);
}

/* Reads the entry at *at and moves on. */
static int next_entry(const zip *z, uint64_t *at, zip_entry *e) {
  const unsigned char *b = z->bytes + *at;
  if (!within(*at, CENTRAL_BYTES, z->directory_end) || u32(b) != 0x02014b50)
    return array_fail(z->err, z->err_size, "npz central directory has no entry at byte %" PRIu64,
                      *at);
  size_t name = u16(b + 28), extra = u16(b + 30), comment = u16(b + 32);
  size_t length = CENTRAL_BYTES + name + extra + comment;
  if (!within(*at, length, z->directory_end))
    return array_fail(z->err, z->err_size,
                      "npz central directory ends within the entry at byte %" PRIu64, *at);
  *e = (zip_entry){ .name = (const char *)b + CENTRAL_BYTES,
                    .name_length = name,
                    .flags = u16(b + 8),
                    .method = u16(b + 10),
                    .crc = u32(b + 16),
                    .packed = u32(b + 20),
                    .unpacked = u32(b + 24),
                    .offset = u32(b + 42) };
  array_name_text(e->name, name, e->text);
  *at += length;
  return widen(z, e, b + CENTRAL_BYTES + name, extra);
}

/* 2: the name itself, 1: the name without its .npy, 0: another. */
static int match(const zip_entry *e, const char *member) {
  size_t length = strlen(member);
  if (e->name_length < length || memcmp(e->name, member, length) != 0) return 0;
  if (e->name_length == length) return 2;
  return e->name_length == length + 4 && memcmp(e->name + length, ".npy", 4) == 0;
}

static int find_member(const zip *z, const char *member, zip_entry *found) {
  array_names listed = { .count = 0 };
  uint64_t at = z->directory;
  int best = 0;
  bool twice = false;
  for (uint64_t i = 0; i < z->entries; i++) {
    zip_entry e;
    if (next_entry(z, &at, &e) != 0) return -1;
    array_names_add(&listed, e.name, e.name_length);
    int fit = member ? match(&e, member) : 1;
    twice = fit == best ? twice || fit > 0 : fit > best ? false : twice;
    if (fit <= best) continue;
    best = fit;
    *found = e;
  }
  if (at != z->directory_end)
    return array_fail(z->err, z->err_size,
                      "npz central directory has %" PRIu64 " bytes after its last entry",
                      z->directory_end - at);
  if (best == 0 || (member == NULL && listed.count > 1))
    return array_names_fail(&listed, "member", member, z->err, z->err_size);
  if (twice)
    return array_fail(z->err, z->err_size, "npz holds more than one member '%s'", found->text);
  return 0;
}

/* Finds the member's packed bytes behind its local header. */
static int find_packed(const zip *z, const zip_entry *e, const unsigned char **packed) {
  if (e->flags & 0x2041) /* encrypted, strongly encrypted, or with a masked local header */
    return array_fail(z->err, z->err_size, "npz member '%s' is encrypted, which is not supported",
                      e->text);
  if (e->method != 0 && e->method != Z_DEFLATED)
    return array_fail(z->err, z->err_size,
                      "npz member '%s' is packed by method %u; only 0 (stored) and 8 (deflate) are "
                      "supported",
                      e->text, e->method);
  if (!within(e->offset, LOCAL_BYTES, z->directory) || u32(z->bytes + e->offset) != 0x04034b50)
    return array_fail(z->err, z->err_size, "npz member '%s' has no local header at byte %" PRIu64,
                      e->text, e->offset);
  const unsigned char *b = z->bytes + e->offset;
  uint64_t length = LOCAL_BYTES + (uint64_t)u16(b + 26) + u16(b + 28);
  if (!within(e->offset, length, z->directory) || u16(b + 8) != e->method ||
      u16(b + 26) != e->name_length || memcmp(b + LOCAL_BYTES, e->name, e->name_length) != 0)
    return array_fail(z->err, z->err_size,
                      "npz member '%s' differs between its local header and the central directory",
                      e->text);
  if (!within(e->offset + length, e->packed, z->directory))
    return array_fail(z->err, z->err_size,
                      "npz member '%s' of %" PRIu64 " packed bytes does not lie within the file",
                      e->text, e->packed);
  *packed = b + length;
  return 0;
}

/* Fills exactly `size` bytes or fails: a spare byte catches output beyond what was declared. */
static bool inflate_all(const unsigned char *packed, size_t packed_size, unsigned char *out,
                        size_t size) {
  enum { STEP = 1 << 30 }; /* zlib counts in unsigned int */
  z_stream s = { .next_in = (Bytef *)(uintptr_t)packed };
  if (inflateInit2(&s, -MAX_WBITS) != Z_OK) return false;
  unsigned char spare;
  size_t in_left = packed_size, out_left = size;
  bool spare_given = false;
  s.next_out = out;
  int status = Z_OK;
  while (status == Z_OK) {
    if (s.avail_in == 0) {
      s.avail_in = (uInt)(in_left < STEP ? in_left : STEP);
      in_left -= s.avail_in;
    }
    if (s.avail_out == 0 && out_left == 0) {
      if (spare_given) break;
      spare_given = true;
      s.next_out = &spare;
      s.avail_out = 1;
    } else if (s.avail_out == 0) {
      s.avail_out = (uInt)(out_left < STEP ? out_left : STEP);
      out_left -= s.avail_out;
    }
    status = inflate(&s, Z_NO_FLUSH);
  }
  bool whole = status == Z_STREAM_END && s.avail_in == 0 && in_left == 0 && out_left == 0 &&
               s.avail_out == (spare_given ? 1 : 0);
  inflateEnd(&s);
  return whole;
}

static int unpack(const zip *z, const zip_entry *e, const unsigned char *packed,
                  unsigned char **unpacked) {
  if (e->unpacked / DEFLATE_RATIO > e->packed ||
      (e->unpacked / DEFLATE_RATIO == e->packed && e->unpacked % DEFLATE_RATIO != 0) ||
      e->unpacked > SIZE_MAX)
    return array_fail(z->err, z->err_size,
                      "npz member '%s' declares %" PRIu64 " bytes from %" PRIu64
                      " packed ones, above the limit of deflate (%d to 1)",
                      e->text, e->unpacked, e->packed, DEFLATE_RATIO);
  unsigned char *out = array_alloc((size_t)e->unpacked);
  if (out == NULL)
    return array_fail(z->err, z->err_size, "npz member '%s': no memory for %" PRIu64 " bytes",
                      e->text, e->unpacked);
  if (!inflate_all(packed, (size_t)e->packed, out, (size_t)e->unpacked)) {
    free(out);
    return array_fail(z->err, z->err_size,
                      "npz member '%s' does not inflate to the %" PRIu64 " bytes it declares",
                      e->text, e->unpacked);
  }
  *unpacked = out;
  return 0;
}

int array_parse_npz(const void *bytes, size_t size, const char *member, array *out, char *err,
                    size_t err_size) {
  memset(out, 0, sizeof *out);
  zip z = { .bytes = bytes, .size = size, .err = err, .err_size = err_size };
  zip_entry e;
  const unsigned char *content = NULL;
  unsigned char *inflated = NULL;
  if (find_end(&z) != 0 || find_member(&z, member, &e) != 0 || find_packed(&z, &e, &content) != 0)
    return -1;
  if (e.method == 0 && e.packed != e.unpacked)
    return array_fail(err, err_size,
                      "npz member '%s' is stored in %" PRIu64 " bytes but declares %" PRIu64,
                      e.text, e.packed, e.unpacked);
  if (e.method != 0) {
    if (unpack(&z, &e, content, &inflated) != 0) return -1;
    content = inflated;
  }
  uint32_t crc = (uint32_t)crc32_z(0, content, (size_t)e.unpacked);
  if (crc != e.crc) {
    free(inflated);
    return array_fail(err, err_size,
                      "npz member '%s' is damaged: its CRC-32 is %08" PRIx32 ", %08" PRIx32
                      " was recorded",
                      e.text, crc, e.crc);
  }
  char why[256];
  if (array_parse_npy(content, (size_t)e.unpacked, out, why, sizeof why) != 0) {
    free(inflated);
    return array_fail(err, err_size, "member '%s': %s", e.text, why);
  }
  if (inflated != NULL) array_adopt(out, inflated, (size_t)e.unpacked, 0);
  return 0;
}
