// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "core/status.h"
#include "wisdom/internal.h"

enum { LOCK_SECONDS = 30 };

static bool cannot(attn_wisdom_file *file, char why[WISDOM_WHY], attn_wisdom_state state,
                   const char *text) {
  file->state = state;
  snprintf(why, WISDOM_WHY, "%s", text);
  return true;
}

/* Reads until the end; the length, -1 on failure. */
static int64_t read_all(int fd, char *bytes, size_t room) {
  size_t used = 0;
  while (used < room) {
    ssize_t n = read(fd, bytes + used, room - used);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return -1;
    if (n == 0) break;
    used += (size_t)n;
  }
  return (int64_t)used;
}

bool wisdom_file_read(const char *path, const core_allocator *a, wisdom_text *text,
                      attn_wisdom_file *file, char why[WISDOM_WHY]) {
  struct stat is;
  *text = (wisdom_text){ 0 };
  *file = (attn_wisdom_file){ .state = ATTN_WISDOM_READ };
  snprintf(file->path, sizeof(file->path), "%s", path);
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); // a pipe must not block
  if (fd < 0)
    return cannot(file, why,
                  errno == ENOENT || errno == ENOTDIR ? ATTN_WISDOM_ABSENT : ATTN_WISDOM_UNREADABLE,
                  strerror(errno));
  if (fstat(fd, &is) != 0 || !S_ISREG(is.st_mode)) {
    close(fd);
    return cannot(file, why, ATTN_WISDOM_UNREADABLE, "not a regular file");
  }
  file->bytes = is.st_size;
  if (is.st_size > WISDOM_FILE_BYTES) {
    close(fd);
    return cannot(file, why, ATTN_WISDOM_FOREIGN, "too large");
  }
  size_t room = (size_t)is.st_size;
  text->bytes = a->alloc(a->user, room + 1, 1);
  int64_t length = text->bytes ? read_all(fd, text->bytes, room) : -1;
  int error = errno;
  close(fd);
  if (!text->bytes) return false;
  if (length < 0) {
    a->free(a->user, text->bytes);
    *text = (wisdom_text){ 0 };
    return cannot(file, why, ATTN_WISDOM_UNREADABLE, strerror(error));
  }
  text->length = (size_t)length;
  text->bytes[text->length] = 0;
  return true;
}

/* The file that a link leads to: that one is replaced, not the link. */
static const char *resolve(const char *path, char resolved[PATH_MAX]) {
  return realpath(path, resolved) ? resolved : path;
}

static attn_status fail(const char *path, const char *step) {
  return core_fail(ATTN_ERROR_IO, "wisdom %s: cannot %s: %s", path, step, strerror(errno));
}

static bool write_all(int fd, const char *bytes, size_t length) {
  while (length) {
    ssize_t n = write(fd, bytes, length);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return false;
    bytes += n, length -= (size_t)n;
  }
  return true;
}

static bool sync_folder(const char *path) {
  char folder[PATH_MAX];
  const char *slash = strrchr(path, '/');
  if (slash == path) slash++;
  snprintf(folder, sizeof(folder), "%.*s", slash ? (int)(slash - path) : 1, slash ? path : ".");
  int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return false;
  bool ok = fsync(fd) == 0 || errno == EINVAL; // EINVAL: folders cannot be synced there
  close(fd);
  return ok;
}

attn_status wisdom_file_write(const char *named, const char *suffix, const wisdom_text *text) {
  char resolved[PATH_MAX], temporary[PATH_MAX];
  const char *path = resolve(named, resolved), *step = NULL;
  struct stat old;
  bool replaces = stat(path, &old) == 0;
  if (replaces && !S_ISREG(old.st_mode))
    return core_fail(ATTN_ERROR_IO, "wisdom %s: not a regular file", named);
  if (snprintf(temporary, sizeof(temporary), "%s%s", path, suffix) >= (int)sizeof(temporary)) {
    errno = ENAMETOOLONG;
    return fail(named, "make a temporary file");
  }
  unlink(temporary); // of a process that was killed
  int fd = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, replaces ? 0600 : 0666);
  if (fd < 0) return fail(named, "make a temporary file");
  if (!write_all(fd, text->bytes, text->length))
    step = "write";
  else if (replaces && fchmod(fd, old.st_mode & 0777) != 0)
    step = "set the mode";
  else if (fsync(fd) != 0)
    step = "sync";
  int error = errno;
  if (close(fd) != 0 && !step) step = "close", error = errno;
  if (!step && rename(temporary, path) != 0) step = "rename", error = errno;
  if (step) {
    unlink(temporary);
    errno = error;
    return fail(named, step);
  }
  return sync_folder(path) ? ATTN_OK : fail(named, "sync the folder");
}

/* Not blocking for ever: a stopped process may hold the lock. */
static bool lock_within(int fd, int seconds) {
  struct timespec now, nap = { .tv_nsec = 500000 };
  clock_gettime(CLOCK_MONOTONIC, &now);
  for (time_t end = now.tv_sec + seconds; now.tv_sec <= end;) {
    if (flock(fd, LOCK_EX | LOCK_NB) == 0) return true;
    if (errno != EWOULDBLOCK && errno != EINTR) return false;
    nanosleep(&nap, NULL);
    if (nap.tv_nsec < 8000000) nap.tv_nsec += 500000;
    clock_gettime(CLOCK_MONOTONIC, &now);
  }
  errno = ETIMEDOUT;
  return false;
}

int wisdom_file_lock(const char *named) {
  char resolved[PATH_MAX], name[PATH_MAX];
  const char *path = resolve(named, resolved);
  if (snprintf(name, sizeof(name), "%s.lock", path) >= (int)sizeof(name)) {
    errno = ENAMETOOLONG;
    fail(named, "lock");
    return -1;
  }
  int fd = open(name, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
  if (fd < 0 || !lock_within(fd, LOCK_SECONDS)) {
    fail(named, "lock");
    if (fd >= 0) close(fd);
    return -1;
  }
  return fd;
}

void wisdom_file_unlock(int lock) { close(lock); }

attn_status wisdom_file_folders(const char *path) {
  char folder[PATH_MAX];
  if (snprintf(folder, sizeof(folder), "%s", path) >= (int)sizeof(folder)) {
    errno = ENAMETOOLONG;
    return fail(path, "make the folder");
  }
  for (char *slash = strchr(folder + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
    *slash = 0;
    if (mkdir(folder, 0700) != 0 && errno != EEXIST) {
      struct stat is; // a read-only parent may say EROFS of a folder that is there
      int error = errno;
      if (stat(folder, &is) != 0) {
        errno = error;
        return fail(path, "make the folder");
      }
    }
    *slash = '/';
  }
  return ATTN_OK;
}
