// SPDX-License-Identifier: Apache-2.0
/* The safetensors format: github.com/huggingface/safetensors, "Format". */
#include "array.h"

#include <inttypes.h>
#include <jansson.h>
#include <string.h>

enum { HEADER_LIMIT = 100000000 }; /* the reference implementation's */

static const struct {
  const char *name;
  array_dtype dtype;
} names[] = {
  { "F64", ARRAY_F64 },   { "F32", ARRAY_F32 },        { "F16", ARRAY_F16 },
  { "BF16", ARRAY_BF16 }, { "F8_E4M3", ARRAY_F8E4M3 }, { "F8_E5M2", ARRAY_F8E5M2 },
  { "BOOL", ARRAY_BOOL }, { "I8", ARRAY_I8 },          { "U8", ARRAY_U8 },
  { "I16", ARRAY_I16 },   { "U16", ARRAY_U16 },        { "I32", ARRAY_I32 },
  { "U32", ARRAY_U32 },   { "I64", ARRAY_I64 },        { "U64", ARRAY_U64 },
};

typedef struct tensor_file {
  const unsigned char *data;
  size_t size; /* of the data */
  char *err;
  size_t err_size;
} tensor_file;

static int read_header(const unsigned char *b, size_t size, tensor_file *f, json_t **root) {
  if (size < 8)
    return array_fail(f->err, f->err_size,
                      "safetensors file of %zu bytes is shorter than the 8 bytes of its header's "
                      "length",
                      size);
  uint64_t length = 0;
  for (int i = 7; i >= 0; i--) length = length << 8 | b[i];
  if (length > HEADER_LIMIT)
    return array_fail(f->err, f->err_size,
                      "safetensors header of %" PRIu64 " bytes is above the limit of %d", length,
                      HEADER_LIMIT);
  if (length > size - 8)
    return array_fail(f->err, f->err_size,
                      "safetensors header of %" PRIu64
                      " bytes is longer than the %zu bytes that the file has left",
                      length, size - 8);
  json_error_t error;
  json_t *parsed = json_loadb((const char *)b + 8, (size_t)length, JSON_REJECT_DUPLICATES, &error);
  char text[ARRAY_NAME_TEXT];
  if (parsed == NULL)
    return array_fail(f->err, f->err_size, "safetensors header is not JSON: %s (at byte %d)",
                      array_name_text(error.text, strlen(error.text), text), error.position);
  if (!json_is_object(parsed)) {
    json_decref(parsed);
    return array_fail(f->err, f->err_size, "safetensors header is not a JSON object");
  }
  f->data = b + 8 + length;
  f->size = size - 8 - (size_t)length;
  *root = parsed;
  return 0;
}

static int read_offsets(const tensor_file *f, const char *name, const json_t *entry, size_t *begin,
                        size_t *end) {
  const json_t *pair = json_object_get(entry, "data_offsets");
  const json_t *first = json_array_get(pair, 0), *last = json_array_get(pair, 1);
  if (json_array_size(pair) != 2 || !json_is_integer(first) || !json_is_integer(last))
    return array_fail(f->err, f->err_size, "tensor '%s' has no data_offsets of two integers", name);
  int64_t from = json_integer_value(first), to = json_integer_value(last);
  if (from < 0 || to < from)
    return array_fail(f->err, f->err_size,
                      "tensor '%s' has data_offsets [%" PRId64 ", %" PRId64 "] that are no range",
                      name, from, to);
  if ((uint64_t)to > f->size)
    return array_fail(f->err, f->err_size,
                      "tensor '%s' ends at byte %" PRId64 " of data, of which the file has %zu",
                      name, to, f->size);
  *begin = (size_t)from;
  *end = (size_t)to;
  return 0;
}

static int read_shape(const tensor_file *f, const char *name, const json_t *entry, array *a) {
  const json_t *shape = json_object_get(entry, "shape");
  if (!json_is_array(shape))
    return array_fail(f->err, f->err_size, "tensor '%s' has no shape", name);
  size_t ndim = json_array_size(shape);
  if (ndim > ARRAY_MAX_DIMS)
    return array_fail(f->err, f->err_size, "tensor '%s' has %zu dimensions, above the limit of %d",
                      name, ndim, ARRAY_MAX_DIMS);
  for (size_t d = 0; d < ndim; d++) {
    const json_t *size = json_array_get(shape, d);
    if (!json_is_integer(size) || json_integer_value(size) < 0)
      return array_fail(
          f->err, f->err_size,
          "tensor '%s' has a size that is not an integer of 0 or more at dimension %zu", name, d);
    a->shape[d] = json_integer_value(size);
  }
  a->ndim = (int)ndim;
  return 0;
}

static int read_dtype(const tensor_file *f, const char *name, const json_t *entry, array *a) {
  const char *dtype = json_string_value(json_object_get(entry, "dtype"));
  if (dtype == NULL) return array_fail(f->err, f->err_size, "tensor '%s' has no dtype", name);
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
    if (strcmp(names[i].name, dtype) == 0) {
      a->dtype = names[i].dtype;
      return 0;
    }
  char text[ARRAY_NAME_TEXT];
  return array_fail(f->err, f->err_size, "tensor '%s' has the unsupported dtype '%s'", name,
                    array_name_text(dtype, strlen(dtype), text));
}

static int read_tensor(const tensor_file *f, const char *name, const json_t *entry, array *a) {
  size_t begin = 0, end = 0, need = 0;
  if (read_dtype(f, name, entry, a) != 0 || read_shape(f, name, entry, a) != 0 ||
      array_need(a, &need, f->err, f->err_size) != 0 ||
      read_offsets(f, name, entry, &begin, &end) != 0)
    return -1;
  if (end - begin != need)
    return array_fail(f->err, f->err_size,
                      "tensor '%s' needs %zu bytes by its shape, data_offsets give %zu", name, need,
                      end - begin);
  a->data = (char *)(uintptr_t)f->data + begin;
  a->bytes = need;
  if (__BYTE_ORDER__ == __ORDER_BIG_ENDIAN__) return array_swap_bytes(a, f->err, f->err_size);
  return 0;
}

/* Looks at every tensor's range, so that a file cut short or padded is noticed whichever tensor is
 * asked for. */
static int find_tensor(const tensor_file *f, json_t *root, const char *name, const char **key,
                       json_t **entry) {
  array_names listed = { .count = 0 };
  size_t begin = 0, end = 0, last = 0;
  const char *k;
  json_t *value, *found = NULL;
  json_object_foreach(root, k, value) {
    if (strcmp(k, "__metadata__") == 0) continue;
    char text[ARRAY_NAME_TEXT];
    array_name_text(k, strlen(k), text);
    if (read_offsets(f, text, value, &begin, &end) != 0) return -1;
    if (end > last) last = end;
    array_names_add(&listed, k, strlen(k));
    if (name != NULL ? strcmp(k, name) == 0 : listed.count == 1) {
      found = value;
      *key = k;
    }
  }
  if (found == NULL || (name == NULL && listed.count > 1))
    return array_names_fail(&listed, "tensor", name, f->err, f->err_size);
  if (last != f->size)
    return array_fail(f->err, f->err_size,
                      "safetensors file has trailing bytes: its tensors need %zu bytes, %zu are "
                      "there",
                      last, f->size);
  *entry = found;
  return 0;
}

int array_parse_safetensors(const void *bytes, size_t size, const char *name, array *out, char *err,
                            size_t err_size) {
  memset(out, 0, sizeof *out);
  array a = { .dtype = ARRAY_F64 };
  tensor_file f = { .err = err, .err_size = err_size };
  json_t *root = NULL, *entry = NULL;
  const char *key = "";
  if (read_header(bytes, size, &f, &root) != 0) return -1;
  int result = find_tensor(&f, root, name, &key, &entry);
  if (result == 0) {
    char text[ARRAY_NAME_TEXT];
    result = read_tensor(&f, array_name_text(key, strlen(key), text), entry, &a);
  }
  json_decref(root);
  if (result == 0) *out = a;
  return result;
}
