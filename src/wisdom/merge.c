// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/status.h"
#include "wisdom/state.h"

const char *attn_wisdom_state_name(attn_wisdom_state state) {
  static const char *const names[ATTN_WISDOM_STATE_COUNT] = {
    [ATTN_WISDOM_NONE] = "none",
    [ATTN_WISDOM_ABSENT] = "absent",
    [ATTN_WISDOM_READ] = "read",
    [ATTN_WISDOM_DAMAGED] = "damaged",
    [ATTN_WISDOM_FUTURE] = "future",
    [ATTN_WISDOM_FOREIGN] = "foreign",
    [ATTN_WISDOM_UNREADABLE] = "unreadable",
  };
  return (unsigned)state < ATTN_WISDOM_STATE_COUNT ? names[state] : NULL;
}

bool wisdom_matches(const wisdom_entry *e, uint64_t machine, const char *implementation) {
  if (machine && e->machine != machine) return false;
  if (!implementation || !*implementation) return true;
  size_t length = strlen(implementation);
  return !strncmp(e->subject, implementation, length) &&
         (!e->subject[length] || e->subject[length] == '/');
}

attn_status wisdom_check_place(const attn_wisdom_file *f, const char *why) {
  if (f->state == ATTN_WISDOM_FUTURE)
    return core_fail(ATTN_ERROR_PARSE,
                     "wisdom %s: of a later format than %d; not read or overwritten", f->path,
                     WISDOM_FORMAT);
  if (f->state == ATTN_WISDOM_FOREIGN)
    return core_fail(ATTN_ERROR_PARSE, "wisdom %s: no wisdom file%s%s; not read or overwritten",
                     f->path, *why ? ": " : "", why);
  if (f->state == ATTN_WISDOM_UNREADABLE)
    return core_fail(ATTN_ERROR_IO, "wisdom %s: %s", f->path, why);
  return ATTN_OK;
}

static attn_status no_memory(void) {
  return core_fail(ATTN_ERROR_MEMORY, "memory for wisdom could not be allocated");
}

attn_status wisdom_gather(wisdom_store *store, const char *path, bool absent, wisdom_keep want,
                          void *user, attn_wisdom_file *file) {
  const core_allocator *a = store->allocator;
  wisdom_text text;
  char why[WISDOM_WHY] = "";
  bool enough = wisdom_file_read(path, a, &text, file, why);
  if (enough && file->state == ATTN_WISDOM_READ)
    enough = wisdom_text_read(store, text.bytes, text.length, want, user, false, file);
  if (text.bytes) a->free(a->user, text.bytes);
  if (!enough) return no_memory();
  if (file->state == ATTN_WISDOM_ABSENT && !absent)
    return core_fail(ATTN_ERROR_IO, "wisdom %s: %s", path, why);
  return wisdom_check_place(file, why);
}

static bool want_none(void *user, const wisdom_entry *entry, int number) {
  (void)user, (void)entry, (void)number;
  return false;
}

attn_status wisdom_replace(wisdom_store *store, const char *path) {
  attn_wisdom_file there;
  wisdom_text text;
  char suffix[32];
  attn_status status = wisdom_gather(store, path, true, want_none, NULL, &there);
  if (status) return status;
  if (!wisdom_store_trim(store, 0) || !wisdom_text_write(store, store->allocator, &text))
    return no_memory();
  snprintf(suffix, sizeof(suffix), ".%ld.tmp", (long)getpid());
  status = wisdom_file_write(path, suffix, &text);
  store->allocator->free(store->allocator->user, text.bytes);
  return status;
}

attn_status attn_wisdom_merge(const char *const *paths, int count, const char *output,
                              attn_wisdom_file *files) {
  if (!paths && count) return core_fail(ATTN_ERROR_NULL, "paths is NULL");
  if (!output) return core_fail(ATTN_ERROR_NULL, "output is NULL");
  if (count < 0) return core_fail(ATTN_ERROR_VALUE, "count of value (%d) is negative", count);
  core_allocator allocator = core_allocator_default();
  attn_status status = ATTN_OK;
  wisdom_store store;
  wisdom_store_init(&store, &allocator);
  for (int i = 0; i < count && !status; i++) {
    attn_wisdom_file file;
    status = paths[i] ? wisdom_gather(&store, paths[i], false, NULL, NULL, &file)
                      : core_fail(ATTN_ERROR_NULL, "paths[%d] is NULL", i);
    if (!status && files) files[i] = file;
  }
  if (!status) status = wisdom_replace(&store, output);
  wisdom_store_free(&store);
  return status;
}

/* ---- Listing ------------------------------------------------------------------------------- */

typedef struct list {
  attn_wisdom_entries *entries;
  int capacity, count;
  uint32_t version;
} list;

static void put_entry(list *l, const wisdom_entry *e, attn_wisdom_entries *x) {
  if (e->kind == WISDOM_MACHINE)
    snprintf(x->description, sizeof(x->description), "%s", e->text);
  else if (e->version != l->version)
    x->others++;
  else if (e->kind == WISDOM_TIME)
    x->times++;
  else
    x->values++;
  if (e->when / 1000000000 > x->newest) x->newest = e->when / 1000000000;
}

/* The machines of a store, in the order of their first entries. */
static void list_machines(list *l, const wisdom_store *s) {
  for (int i = 0; i < s->count; i++) {
    const wisdom_entry *e = &s->entries[i];
    bool first = e->kind != WISDOM_OTHER;
    for (int j = 0; j < i && first; j++)
      first = s->entries[j].kind == WISDOM_OTHER || s->entries[j].machine != e->machine;
    if (!first) continue;
    int number = l->count++;
    if (number >= l->capacity) continue;
    l->entries[number] = (attn_wisdom_entries){ .machine = e->machine };
    for (int j = i; j < s->count; j++)
      if (s->entries[j].kind != WISDOM_OTHER && s->entries[j].machine == e->machine)
        put_entry(l, &s->entries[j], &l->entries[number]);
  }
}

attn_status attn_wisdom_list(const char *path, attn_wisdom_entries *entries, int capacity,
                             int *count, attn_wisdom_file *file) {
  if (!path) return core_fail(ATTN_ERROR_NULL, "path is NULL");
  if (!count) return core_fail(ATTN_ERROR_NULL, "count is NULL");
  core_allocator allocator = core_allocator_default();
  attn_wisdom_file met;
  wisdom_store store;
  list l = { entries, entries ? capacity : 0, 0, 0 };
  wisdom_version_read(attn_version(), &l.version);
  wisdom_store_init(&store, &allocator);
  attn_status status = wisdom_gather(&store, path, true, NULL, NULL, &met);
  if (status != ATTN_ERROR_MEMORY) {
    list_machines(&l, &store);
    *count = l.count;
    if (file) *file = met;
    status = ATTN_OK;
  }
  wisdom_store_free(&store);
  return status;
}
