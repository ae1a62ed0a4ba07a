// SPDX-License-Identifier: Apache-2.0
/* How much memory this process may use: the machine's, within every cgroup above the process. */
#include "hardware/internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/size.h"

/* Lines of a file of unknown length; those that do not fit are skipped. */
typedef struct lines {
  FILE *file;
  char text[2 * HARDWARE_PATH];
} lines;

static bool lines_open(lines *l, const char *root, const char *path) {
  l->file =
      hardware_path(l->text, sizeof l->text, "%s%s", root, path) ? fopen(l->text, "re") : NULL;
  return l->file != NULL;
}

static bool lines_next(lines *l) {
  while (fgets(l->text, sizeof l->text, l->file)) {
    char *end = strchr(l->text, '\n');
    if (end) {
      *end = '\0';
      return true;
    }
    if (feof(l->file)) return true;
    int c;
    while ((c = fgetc(l->file)) != EOF && c != '\n') {
    }
  }
  return false;
}

/* "key   number" with any of ':', blank between; -1 when `line` is another or damaged. */
static int64_t keyed_number(const char *line, const char *key) {
  size_t length = strlen(key);
  if (strncmp(line, key, length) != 0) return -1;
  const char *at = line + length + strspn(line + length, ": \t");
  if (at == line + length || *at < '0' || *at > '9') return -1;
  char *end;
  errno = 0;
  long long value = strtoll(at, &end, 10);
  if (errno || (*end != '\0' && *end != ' ')) return -1;
  return value;
}

static void read_meminfo(const char *root, hardware_memory *memory) {
  lines l;
  if (!lines_open(&l, root, "/proc/meminfo")) return;
  while (lines_next(&l)) {
    int64_t total = keyed_number(l.text, "MemTotal"), free = keyed_number(l.text, "MemAvailable");
    int64_t bytes;
    if (total > 0 && size_mul(total, 1024, &bytes)) memory->total = bytes;
    if (free > 0 && size_mul(free, 1024, &bytes)) memory->available = bytes;
  }
  fclose(l.file);
}

/* Where a hierarchy is mounted and which of its cgroups that shows. */
typedef struct mount {
  char point[HARDWARE_PATH], top[HARDWARE_PATH];
} mount;

/* mountinfo writes blanks and backslashes as octal. */
static bool unescape(char *out, size_t size, const char *in) {
  size_t n = 0;
  for (; *in && n + 1 < size; n++) {
    if (in[0] == '\\' && in[1] && in[2] && in[3] && strspn(in + 1, "01234567") >= 3) {
      out[n] = (char)((in[1] - '0') << 6 | (in[2] - '0') << 3 | (in[3] - '0'));
      in += 4;
    } else {
      out[n] = *in++;
    }
  }
  out[n] = '\0';
  return *in == '\0';
}

static bool has_option(const char *options, const char *option) {
  size_t length = strlen(option);
  for (const char *at = options; (at = strstr(at, option)) != NULL; at += length) {
    bool starts = at == options || at[-1] == ',';
    if (starts && (at[length] == '\0' || at[length] == ',')) return true;
  }
  return false;
}

/* proc(5): id parent dev root point options optional... - type source super-options */
static bool read_mount(const char *line, bool v2, mount *found) {
  char top[HARDWARE_PATH], point[HARDWARE_PATH], type[32], super[HARDWARE_PATH];
  if (sscanf(line, "%*s %*s %*s %1023s %1023s", top, point) != 2) return false;
  const char *tail = strstr(line, " - ");
  if (!tail || sscanf(tail, " - %31s %*s %1023s", type, super) != 2) return false;
  bool wanted = v2 ? strcmp(type, "cgroup2") == 0
                   : strcmp(type, "cgroup") == 0 && has_option(super, "memory");
  return wanted && unescape(found->top, sizeof found->top, top) &&
         unescape(found->point, sizeof found->point, point);
}

static bool find_mount(const char *root, bool v2, mount *found) {
  lines l;
  bool ok = false;
  if (!lines_open(&l, root, "/proc/self/mountinfo")) return false;
  while (!ok && lines_next(&l)) ok = read_mount(l.text, v2, found);
  fclose(l.file);
  return ok;
}

/* cgroups(7), /proc/PID/cgroup: "id:controllers:path"; version 2 is "0::path". */
static bool find_group(const char *root, bool v2, char *path, size_t size) {
  lines l;
  bool ok = false;
  if (!lines_open(&l, root, "/proc/self/cgroup")) return false;
  while (!ok && lines_next(&l)) {
    char *controllers = strchr(l.text, ':');
    char *at = controllers ? strchr(controllers + 1, ':') : NULL;
    if (!at) continue;
    *at++ = '\0';
    controllers++;
    if (v2 ? *controllers != '\0' : !has_option(controllers, "memory")) continue;
    ok = at[0] == '/' && hardware_path(path, size, "%s", at);
  }
  fclose(l.file);
  return ok;
}

/* The process's cgroup as a path below the mount point. In a container without its own cgroup
 * namespace the process's path starts with the mount's top; a path that leads elsewhere ("/..", or
 * the host's) is not visible here, and the mount's top is the nearest that is. */
static void group_below_mount(const char *group, const mount *m, char *below, size_t size) {
  size_t top = strcmp(m->top, "/") == 0 ? 0 : strlen(m->top);
  bool inside = strncmp(group, m->top, top) == 0 && (group[top] == '/' || group[top] == '\0') &&
                !strstr(group, "/..");
  hardware_path(below, size, "%s", inside ? group + top : "");
  size_t length = strlen(below);
  while (length > 0 && below[length - 1] == '/') below[--length] = '\0';
}

static const struct version {
  bool v2;
  const char *limit, *usage, *inactive, *parents;
} versions[] = {
  { true, "memory.max", "memory.current", "inactive_file", NULL },
  /* `parents` counts the limits of cgroups above the mount, which version 2 does not show. */
  { false, "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file",
    "hierarchical_memory_limit" },
};

/* A limit is no size: it lowers what is known, and 0 would mean unknown. */
static void apply_limit(hardware_memory *memory, int64_t limit, int64_t used) {
  if (memory->total > 0) memory->total = size_min(memory->total, size_max(limit, 1));
  if (memory->available > 0 && used >= 0)
    memory->available = size_min(memory->available, size_max(limit - used, 1));
}

/* One cgroup's limit. Pages of files that were not used lately are reclaimed before an allocation
 * fails, so they do not count as used. */
static void read_group(const char *root, const char *folder, const struct version *v,
                       hardware_memory *memory, hardware_notes notes) {
  char path[2 * HARDWARE_PATH];
  if (!hardware_path(path, sizeof path, "%s/%s", folder, v->limit)) return;
  int64_t limit = hardware_file_number(root, path);
  int64_t inactive = 0;
  lines l;
  if (hardware_path(path, sizeof path, "%s/memory.stat", folder) && lines_open(&l, root, path)) {
    while (lines_next(&l)) {
      int64_t pages = keyed_number(l.text, v->inactive);
      if (pages >= 0) inactive = pages;
      int64_t parents = v->parents ? keyed_number(l.text, v->parents) : -1;
      if (parents > 0 && (limit < 0 || parents < limit)) limit = parents;
    }
    fclose(l.file);
  }
  if (limit < 0) return;
  /* Version 1 writes "no limit" as the largest multiple of a page. */
  if (limit >= INT64_MAX - 65535) return;
  int64_t usage = -1;
  if (hardware_path(path, sizeof path, "%s/%s", folder, v->usage))
    usage = hardware_file_number(root, path);
  if (usage < 0) hardware_note(notes, "cgroup: %s unreadable", v->usage);
  apply_limit(memory, limit, usage < 0 ? -1 : size_max(usage - inactive, 0));
}

static void read_version(const char *root, const struct version *v, hardware_memory *memory,
                         hardware_notes notes) {
  mount m;
  char group[HARDWARE_PATH], below[HARDWARE_PATH], folder[2 * HARDWARE_PATH];
  if (!find_group(root, v->v2, group, sizeof group) || !find_mount(root, v->v2, &m)) return;
  group_below_mount(group, &m, below, sizeof below);
  for (;;) {
    if (hardware_path(folder, sizeof folder, "%s%s", m.point, below))
      read_group(root, folder, v, memory, notes);
    char *slash = strrchr(below, '/');
    if (!slash) break;
    *slash = '\0';
  }
}

void hardware_memory_read(const char *root, hardware_memory *memory, hardware_notes notes) {
  *memory = (hardware_memory){ 0 };
  read_meminfo(root, memory);
#if defined(_SC_PHYS_PAGES)
  if (memory->total == 0 && root[0] == '\0') {
    int64_t pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    if (pages > 0 && page > 0 && !size_mul(pages, page, &memory->total)) memory->total = 0;
  }
#endif
  for (size_t i = 0; i < sizeof versions / sizeof versions[0]; i++)
    read_version(root, &versions[i], memory, notes);
  if (memory->available > memory->total && memory->total > 0) memory->available = memory->total;
  if (memory->total == 0) hardware_note(notes, "memory size unreadable");
  if (memory->available == 0) hardware_note(notes, "free memory unreadable");
}
