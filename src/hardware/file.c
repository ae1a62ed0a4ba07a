// SPDX-License-Identifier: Apache-2.0
#include "hardware/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

bool hardware_path(char *path, size_t size, const char *format, ...) {
  va_list args;
  va_start(args, format);
  int length = vsnprintf(path, size, format, args);
  va_end(args);
  if (length >= 0 && (size_t)length < size) return true;
  if (size > 0) path[0] = '\0';
  return false;
}

int64_t hardware_file_read(const char *root, const char *path, char *buffer, size_t size) {
  char full[2 * HARDWARE_PATH];
  if (size == 0) return -1;
  buffer[0] = '\0';
  if (!hardware_path(full, sizeof full, "%s%s", root, path)) return -1;
  int fd = open(full, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return -1;
  size_t used = 0;
  while (used + 1 < size) {
    ssize_t got = read(fd, buffer + used, size - 1 - used);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) {
      close(fd);
      buffer[0] = '\0';
      return -1;
    }
    if (got == 0) break;
    used += (size_t)got;
  }
  close(fd);
  buffer[used] = '\0';
  return (int64_t)used;
}

int64_t hardware_file_number(const char *root, const char *path) {
  char text[64];
  int64_t length = hardware_file_read(root, path, text, sizeof text);
  if (length <= 0 || text[0] < '0' || text[0] > '9') return -1;
  char *end;
  errno = 0;
  long long value = strtoll(text, &end, 10);
  if (*end == '\n') end++;
  if (errno != 0 || *end != '\0') return -1;
  return value;
}

int hardware_list_count(const char *list) {
  int count = 0;
  const char *s = list;
  for (;;) {
    char *end;
    if (*s < '0' || *s > '9') return 0;
    long first = strtol(s, &end, 10), last = first;
    if (*end == '-') {
      s = end + 1;
      if (*s < '0' || *s > '9') return 0;
      last = strtol(s, &end, 10);
    }
    /* Linux numbers fewer than 2^16 CPUs and nodes. */
    if (last < first || last > 65535) return 0;
    count += (int)(last - first + 1);
    if (count > 65536) return 0;
    s = end;
    if (*s == '\0' || *s == '\n') return count;
    if (*s++ != ',') return 0;
  }
}
