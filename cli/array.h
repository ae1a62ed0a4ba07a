// SPDX-License-Identifier: Apache-2.0
/* Arrays in files: NumPy's .npy and .npz, and .safetensors. Nothing here knows of attention.
 *
 * Every function that can fail returns 0, or -1 with one line in err (which may be NULL when
 * err_size is 0) and *out zeroed, so that array_release is always safe. Nothing is global: calls
 * on different arrays may run in different threads. */
#ifndef CLI_ARRAY_H
#define CLI_ARRAY_H

#include <stddef.h>
#include <stdint.h>

typedef enum array_dtype {
  ARRAY_F64,
  ARRAY_F32,
  ARRAY_F16,
  ARRAY_BF16,
  ARRAY_F8E4M3,
  ARRAY_F8E5M2,
  ARRAY_BOOL, /* a byte; files are not checked to hold only 0 and 1 */
  ARRAY_I8,
  ARRAY_U8,
  ARRAY_I16,
  ARRAY_U16,
  ARRAY_I32,
  ARRAY_U32,
  ARRAY_I64,
  ARRAY_U64
} array_dtype;

enum { ARRAY_MAX_DIMS = 8 };

typedef struct array {
  array_dtype dtype;
  int ndim; /* 0: one element */
  int64_t shape[ARRAY_MAX_DIMS];
  int fortran_order; /* the first index runs fastest; never so after array_load */
  void *data;        /* elements in the machine's byte order; read-only after a load */
  size_t bytes;
  /* private: */
  void *owner;
  size_t owner_bytes;
  int mapped;
} array;

/* Loads PATH.npy, PATH.npz:MEMBER or PATH.safetensors:TENSOR. A member may omit its ".npy"; a
 * file with exactly one member needs no name. The path ends at the first ".npz:" or
 * ".safetensors:" up to which a file exists, so both parts may hold colons. The array is in C
 * order and its data aligned to the element size. bfloat16 and 8-bit floats have no .npy descr:
 * they load as ARRAY_U16 and ARRAY_U8 (also from the '<V2', '|V1' and '<f1' that ml_dtypes
 * writes) and the caller says what they are. Files of 256 MB and more are mapped: do not truncate
 * one while it is in use. */
int array_load(const char *spec, array *out, char *err, size_t err_size);

/* The same from memory. Data points into bytes, at any alignment, unless it had to be converted
 * (byte order, deflate); fortran_order is as stored. member, name: NULL for the only one. */
int array_parse_npy(const void *bytes, size_t size, array *out, char *err, size_t err_size);
int array_parse_npz(const void *bytes, size_t size, const char *member, array *out, char *err,
                    size_t err_size);
int array_parse_safetensors(const void *bytes, size_t size, const char *name, array *out, char *err,
                            size_t err_size);

/* Brings a parsed array to C order and element alignment, copying only where that is needed. */
int array_to_c_order(array *a, char *err, size_t err_size);

/* Frees what the array owns and zeroes it. */
void array_release(array *a);

/* Writes a .npy file, byte for byte as NumPy would. The file is replaced at once or not at all: a
 * temporary file in the same folder is written, synced and renamed, and removed on failure. A
 * symbolic link is followed; a replaced file's permissions are kept; anything that is not a
 * regular file is refused. BF16 is written as '<u2' and 8-bit floats as '|u1'. */
int array_save_npy(const char *path, const array *a, char *err, size_t err_size);

size_t array_dtype_size(array_dtype t);      /* 0 for an unknown value */
const char *array_dtype_name(array_dtype t); /* "f32", "bf16", ...; NULL for an unknown value */
int64_t array_count(const array *a);         /* number of elements */

/* ---- Between the files of this reader -------------------------------------------------------- */

enum { ARRAY_NPY_HEADER_MAX = 512, ARRAY_NAME_TEXT = 80, ARRAY_NAMES_LISTED = 8 };

/* Formats the message; always returns -1. */
int array_fail(char *err, size_t err_size, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Bytes that the array's shape and dtype need; fails where a product overflows. */
int array_need(const array *a, size_t *need, char *err, size_t err_size);

/* Memory aligned for any element and vector; free() it. NULL when there is none. */
void *array_alloc(size_t bytes);

/* Makes the array own the buffer that its data points into, or frees the buffer if the array
 * already has a copy of its own. */
void array_adopt(array *a, void *buffer, size_t bytes, int mapped);

/* Reverses the bytes of each element into memory that the array then owns. */
int array_swap_bytes(array *a, char *err, size_t err_size);

/* A name from a file, fit for a message: cut to ARRAY_NAME_TEXT, no control characters. */
const char *array_name_text(const char *name, size_t length, char out[ARRAY_NAME_TEXT]);

/* "it has 'a', 'b' and 3 more", built a name at a time. */
typedef struct array_names {
  char text[ARRAY_NAMES_LISTED * (ARRAY_NAME_TEXT + 4)];
  size_t used;
  uint64_t count;
} array_names;
void array_names_add(array_names *names, const char *name, size_t length);
/* Fails with what was asked for (NULL: no name was given) and what there is. */
int array_names_fail(const array_names *names, const char *kind, const char *asked, char *err,
                     size_t err_size);

/* The .npy header of an array, returning its length. */
size_t array_npy_header(const array *a, unsigned char out[ARRAY_NPY_HEADER_MAX]);

#endif
