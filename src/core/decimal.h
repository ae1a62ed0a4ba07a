// SPDX-License-Identifier: Apache-2.0
/* Numbers as text with '.' whatever the locale: strtod and printf follow the host's. */
#ifndef CORE_DECIMAL_H
#define CORE_DECIMAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Reads all of `text`, [+-]digits[.digits][e[+-]digits]; false if it is not such a number or lies
 * outside float's range. */
bool decimal_read_float(const char *text, float *out);

enum { DECIMAL_FLOAT_SIZE = 24 };
/* Writes the fewest digits that decimal_read_float reads back as the same float. */
void decimal_write_float(float x, char out[DECIMAL_FLOAT_SIZE]);

/* Reads an integer at *text, which moves past it; false on none or when it does not fit. */
bool decimal_read_int(const char **text, int64_t *out);

#endif
