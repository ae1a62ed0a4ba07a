// SPDX-License-Identifier: Apache-2.0
/* The .npy format: numpy.org/neps/nep-0001-npy-format and numpy.lib.format. */
#include "array.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static const unsigned char magic[6] = { 0x93, 'N', 'U', 'M', 'P', 'Y' };

#define HOST_LITTLE (__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__)

/* 'V' and f1 are how ml_dtypes names types that NumPy lacks; bits alone can be had from them. */
static const struct {
  const char *code;
  array_dtype dtype;
} codes[] = {
  { "f8", ARRAY_F64 }, { "f4", ARRAY_F32 }, { "f2", ARRAY_F16 }, { "b1", ARRAY_BOOL },
  { "i1", ARRAY_I8 },  { "u1", ARRAY_U8 },  { "i2", ARRAY_I16 }, { "u2", ARRAY_U16 },
  { "i4", ARRAY_I32 }, { "u4", ARRAY_U32 }, { "i8", ARRAY_I64 }, { "u8", ARRAY_U64 },
  { "V2", ARRAY_U16 }, { "V1", ARRAY_U8 },  { "f1", ARRAY_U8 },
};

/* The header is a Python dict literal, of which only what NumPy writes is understood. */
typedef struct scan {
  const char *start, *at, *end;
  char *err;
  size_t err_size;
} scan;

typedef struct npy_header {
  array *array;
  bool swap;
} npy_header;

static int scan_fail(const scan *s, const char *expected) {
  if (s->at == s->end)
    return array_fail(s->err, s->err_size, "npy header ends where %s was expected", expected);
  char text[ARRAY_NAME_TEXT];
  return array_fail(s->err, s->err_size, "npy header has '%s' at character %td, not %s",
                    array_name_text(s->at, 1, text), s->at - s->start, expected);
}

static void skip_space(scan *s) {
  while (s->at < s->end && (*s->at == ' ' || *s->at == '\t' || *s->at == '\n' || *s->at == '\r'))
    s->at++;
}

static bool take(scan *s, char c) {
  skip_space(s);
  if (s->at == s->end || *s->at != c) return false;
  s->at++;
  return true;
}

static bool take_word(scan *s, const char *word) {
  size_t length = strlen(word);
  if ((size_t)(s->end - s->at) < length || memcmp(s->at, word, length) != 0) return false;
  s->at += length;
  return true;
}

/* No escapes: none of the strings that are legal here needs one. */
static int scan_string(scan *s, const char *expected, const char **text, size_t *length) {
  skip_space(s);
  if (s->at == s->end || (*s->at != '\'' && *s->at != '"')) return scan_fail(s, expected);
  char quote = *s->at;
  const char *first = ++s->at;
  while (s->at < s->end && *s->at != quote) {
    if (*s->at == '\\' || *s->at == '\n') return scan_fail(s, "a plain character of a string");
    s->at++;
  }
  if (s->at == s->end) return scan_fail(s, "a closing quote");
  *text = first;
  *length = (size_t)(s->at - first);
  s->at++;
  return 0;
}

static int scan_dtype(scan *s, npy_header *h) {
  skip_space(s);
  if (s->at < s->end && (*s->at == '[' || *s->at == '(' || *s->at == '{'))
    return array_fail(s->err, s->err_size, "structured dtypes are not supported");
  const char *descr;
  size_t length;
  if (scan_string(s, "a dtype string", &descr, &length) != 0) return -1;
  char text[ARRAY_NAME_TEXT];
  array_name_text(descr, length, text);
  if (length == 0 || memchr("<>=|", descr[0], 4) == NULL)
    return array_fail(s->err, s->err_size, "dtype '%s' does not begin with one of < > = |", text);
  char order = descr[0];
  if (length > 1 && descr[1] == 'O')
    return array_fail(s->err, s->err_size,
                      "dtype '%s' holds Python objects (a pickle), which are never loaded", text);
  size_t row = 0;
  while (row < sizeof codes / sizeof codes[0] &&
         (length != 3 || memcmp(descr + 1, codes[row].code, 2) != 0))
    row++;
  if (row == sizeof codes / sizeof codes[0])
    return array_fail(s->err, s->err_size,
                      "dtype '%s' is not supported (b1, i1 to i8, u1 to u8, f2, f4, f8 are)", text);
  h->array->dtype = codes[row].dtype;
  bool wide = array_dtype_size(codes[row].dtype) > 1, raw = codes[row].code[0] == 'V';
  if (wide && (raw ? order == '>' : order == '|'))
    return array_fail(s->err, s->err_size, "dtype '%s' leaves the byte order unclear", text);
  h->swap = wide && !raw && order != '=' && (order == '>') == HOST_LITTLE;
  return 0;
}

static int scan_order(scan *s, npy_header *h) {
  skip_space(s);
  if (take_word(s, "True"))
    h->array->fortran_order = 1;
  else if (!take_word(s, "False"))
    return scan_fail(s, "True or False");
  return 0;
}

static int scan_size(scan *s, int64_t *size) {
  skip_space(s);
  if (s->at < s->end && *s->at == '-')
    return array_fail(s->err, s->err_size, "npy header has a negative size in its shape");
  const char *first = s->at;
  int64_t value = 0;
  for (; s->at < s->end && *s->at >= '0' && *s->at <= '9'; s->at++)
    if (__builtin_mul_overflow(value, 10, &value) ||
        __builtin_add_overflow(value, *s->at - '0', &value))
      return array_fail(s->err, s->err_size, "npy header has a size above the limit of %" PRId64,
                        INT64_MAX);
  if (s->at == first) return scan_fail(s, "a size");
  if (*first == '0' && s->at - first > 1)
    return array_fail(s->err, s->err_size, "npy header has a size with a leading zero");
  *size = value;
  return 0;
}

static int scan_shape(scan *s, npy_header *h) {
  array *a = h->array;
  if (!take(s, '(')) return scan_fail(s, "a shape in parentheses");
  bool comma = true;
  while (!take(s, ')')) {
    if (!comma) return scan_fail(s, "',' or ')'");
    if (a->ndim == ARRAY_MAX_DIMS)
      return array_fail(s->err, s->err_size, "npy shape has more than the limit of %d dimensions",
                        ARRAY_MAX_DIMS);
    if (scan_size(s, &a->shape[a->ndim]) != 0) return -1;
    a->ndim++;
    comma = take(s, ',');
  }
  /* (3) is the number 3 in Python. */
  if (a->ndim == 1 && !comma)
    return array_fail(s->err, s->err_size, "npy shape of one size lacks its comma");
  return 0;
}

static int scan_header(scan *s, npy_header *h) {
  static const struct {
    const char *name;
    int (*parse)(scan *, npy_header *);
  } keys[3] = { { "descr", scan_dtype }, { "fortran_order", scan_order }, { "shape", scan_shape } };
  bool seen[3] = { false, false, false };
  if (!take(s, '{')) return scan_fail(s, "'{'");
  bool comma = true;
  while (!take(s, '}')) {
    if (!comma) return scan_fail(s, "',' or '}'");
    const char *key;
    size_t length, k = 0;
    if (scan_string(s, "a key", &key, &length) != 0) return -1;
    while (k < 3 && (strlen(keys[k].name) != length || memcmp(keys[k].name, key, length) != 0)) k++;
    char text[ARRAY_NAME_TEXT];
    if (k == 3)
      return array_fail(s->err, s->err_size, "npy header has the unknown key '%s'",
                        array_name_text(key, length, text));
    if (seen[k])
      return array_fail(s->err, s->err_size, "npy header has the key '%s' twice", keys[k].name);
    seen[k] = true;
    if (!take(s, ':')) return scan_fail(s, "':'");
    if (keys[k].parse(s, h) != 0) return -1;
    comma = take(s, ',');
  }
  skip_space(s);
  if (s->at != s->end) return scan_fail(s, "the end");
  for (size_t k = 0; k < 3; k++)
    if (!seen[k])
      return array_fail(s->err, s->err_size, "npy header lacks the key '%s'", keys[k].name);
  return 0;
}

/* Finds the header's text between the fixed fields and the data. */
static int find_header(const unsigned char *b, size_t size, scan *s) {
  if (size < 10)
    return array_fail(s->err, s->err_size, "npy file of %zu bytes is shorter than any header",
                      size);
  if (memcmp(b, magic, sizeof magic) != 0)
    return array_fail(s->err, s->err_size, "not an npy file (it does not begin with \\x93NUMPY)");
  if (b[6] < 1 || b[6] > 3 || b[7] != 0)
    return array_fail(s->err, s->err_size, "npy version %d.%d is not one of 1.0, 2.0, 3.0", b[6],
                      b[7]);
  size_t first = b[6] == 1 ? 10 : 12;
  if (size < first)
    return array_fail(s->err, s->err_size, "npy file of %zu bytes ends within its fixed header",
                      size);
  size_t length = (size_t)b[8] | (size_t)b[9] << 8;
  if (b[6] > 1) length |= (size_t)b[10] << 16 | (size_t)b[11] << 24;
  if (length > size - first)
    return array_fail(s->err, s->err_size,
                      "npy header of %zu bytes is longer than the %zu bytes that the file has left",
                      length, size - first);
  /* The format promises the newline; without it the length is likely to be wrong. */
  if (length == 0 || b[first + length - 1] != '\n')
    return array_fail(s->err, s->err_size, "npy header is not terminated by a newline");
  s->start = s->at = (const char *)b + first;
  s->end = s->start + length;
  return 0;
}

int array_parse_npy(const void *bytes, size_t size, array *out, char *err, size_t err_size) {
  memset(out, 0, sizeof *out);
  array a = { .dtype = ARRAY_F64 };
  npy_header h = { .array = &a, .swap = false };
  scan s = { .err = err, .err_size = err_size };
  size_t need = 0;
  if (find_header(bytes, size, &s) != 0 || scan_header(&s, &h) != 0 ||
      array_need(&a, &need, err, err_size) != 0)
    return -1;
  size_t first = (size_t)(s.end - (const char *)bytes), have = size - first;
  if (have < need)
    return array_fail(err, err_size,
                      "npy data is cut short: the shape needs %zu bytes, %zu are there", need,
                      have);
  if (have > need)
    return array_fail(err, err_size,
                      "npy file has trailing bytes: the shape needs %zu bytes, %zu are there", need,
                      have);
  /* The struct serves readers and writers both; what was parsed is documented as read-only. */
  a.data = (char *)(uintptr_t)bytes + first;
  a.bytes = need;
  if (h.swap && array_swap_bytes(&a, err, err_size) != 0) return -1;
  *out = a;
  return 0;
}

static const char *descr_code(array_dtype t) {
  if (t == ARRAY_BF16) return "u2";
  if (t == ARRAY_F8E4M3 || t == ARRAY_F8E5M2) return "u1";
  for (size_t i = 0; i < sizeof codes / sizeof codes[0]; i++)
    if (codes[i].dtype == t) return codes[i].code;
  return "V1";
}

size_t array_npy_header(const array *a, unsigned char out[ARRAY_NPY_HEADER_MAX]) {
  char order = array_dtype_size(a->dtype) == 1 ? '|' : HOST_LITTLE ? '<' : '>';
  char text[ARRAY_NPY_HEADER_MAX];
  int n = snprintf(text, sizeof text, "{'descr': '%c%s', 'fortran_order': %s, 'shape': (", order,
                   descr_code(a->dtype), a->fortran_order ? "True" : "False");
  size_t length = (size_t)n, digits = 0;
  for (int d = 0; d < a->ndim; d++) {
    n = snprintf(text + length, sizeof text - length, "%s%" PRId64, d ? ", " : "", a->shape[d]);
    length += (size_t)n;
    if (d == (a->fortran_order ? a->ndim - 1 : 0)) digits = (size_t)n - (d ? 2 : 0);
  }
  n = snprintf(text + length, sizeof text - length, "%s), }", a->ndim == 1 ? "," : "");
  length += (size_t)n;
  /* NumPy leaves room for the growing axis to reach 21 digits, then fills up to 64 bytes. */
  size_t used = 10 + length + 1 + (a->ndim ? 21 - digits : 0);
  size_t total = used + 64 - used % 64;
  memcpy(out, magic, sizeof magic);
  out[6] = 1;
  out[7] = 0;
  out[8] = (unsigned char)((total - 10) & 0xff);
  out[9] = (unsigned char)((total - 10) >> 8);
  memcpy(out + 10, text, length);
  memset(out + 10 + length, ' ', total - 10 - length - 1);
  out[total - 1] = '\n';
  return total;
}
