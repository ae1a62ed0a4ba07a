// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>
#include <string.h>

#include "core/status.h"
#include "wisdom/state.h"

static attn_status no_memory(void) {
  return core_fail(ATTN_ERROR_MEMORY, "memory for wisdom could not be allocated");
}

/* What a save takes with it: the lock is not held while files are written. */
typedef struct change {
  const wisdom *wisdom;
  wisdom_store fresh;
  wisdom_forgotten forgotten[WISDOM_FORGOTTEN];
  int forgotten_count;
} change;

static bool add_description(const wisdom *w, wisdom_store *store) {
  wisdom_entry e = {
    .kind = WISDOM_MACHINE, .machine = w->machine, .subject = "", .text = w->description
  };
  return wisdom_store_add(store, &e, true);
}

static bool collect(wisdom *w, change *c) {
  c->wisdom = w;
  wisdom_store_init(&c->fresh, &w->allocator);
  pthread_mutex_lock(&w->lock);
  bool enough = wisdom_settle(w), own = false;
  memcpy(c->forgotten, w->forgotten, sizeof(c->forgotten));
  c->forgotten_count = w->forgotten_count;
  for (int i = 0; i < w->store.count && enough; i++) {
    wisdom_entry e = w->store.entries[i];
    if (!e.fresh) continue;
    e.fresh = false;
    own |= e.machine == w->machine;
    enough = wisdom_store_add(&c->fresh, &e, false);
  }
  pthread_mutex_unlock(&w->lock);
  return enough && (!own || add_description(w, &c->fresh));
}

/* Of the file's entries, those that stay. */
static bool stays(void *user, const wisdom_entry *e, int number) {
  const change *c = user;
  (void)number;
  bool dated = e->kind == WISDOM_TIME || e->kind == WISDOM_VALUE;
  if (dated && e->machine == c->wisdom->machine && e->version < c->wisdom->version) return false;
  for (int i = 0; i < c->forgotten_count; i++) {
    const wisdom_forgotten *f = &c->forgotten[i];
    if (e->when <= f->when && wisdom_matches(e, f->machine, f->implementation)) return false;
  }
  return true;
}

/* Reads, changes and replaces the file, whose lock is held. */
static attn_status apply(const wisdom *w, change *c) {
  attn_wisdom_file file;
  wisdom_text text;
  wisdom_store store;
  wisdom_store_init(&store, &w->allocator);
  attn_status status = wisdom_gather(&store, w->path, true, stays, c, &file);
  if (status != ATTN_ERROR_MEMORY) wisdom_log_file(w, &file, attn_last_error());
  if (status) goto done;
  bool enough = true;
  for (int i = 0; i < c->fresh.count && enough; i++)
    enough = wisdom_store_add(&store, &c->fresh.entries[i], false);
  enough = enough && wisdom_store_trim(&store, w->machine) &&
           wisdom_text_write(&store, &w->allocator, &text);
  if (!enough) {
    status = no_memory();
    goto done;
  }
  status = wisdom_file_write(w->path, ".tmp", &text); // one name: a killed process leaves one file
  w->allocator.free(w->allocator.user, text.bytes);
done:
  wisdom_store_free(&store);
  return status;
}

/* What was written needs no writing again, unless it has changed since. */
static void settle_change(wisdom *w, const change *c) {
  pthread_mutex_lock(&w->lock);
  int64_t last = c->forgotten_count ? c->forgotten[c->forgotten_count - 1].when : 0;
  int kept = 0;
  for (int i = 0; i < w->forgotten_count; i++)
    if (w->forgotten[i].when > last) w->forgotten[kept++] = w->forgotten[i];
  w->forgotten_count = kept;
  for (int i = 0; i < w->store.count; i++) {
    wisdom_entry *e = &w->store.entries[i];
    const wisdom_entry *written = e->fresh ? wisdom_store_find(&c->fresh, e) : NULL;
    if (written && written->when == e->when) e->fresh = false;
  }
  pthread_mutex_unlock(&w->lock);
}

attn_status wisdom_save(wisdom *w) {
  if (!w->path)
    return core_fail(ATTN_ERROR_NOT_FOUND, "there is no wisdom file to save to: name one in "
                                           "config.wisdom_path or ATTN_WISDOM, or set HOME");
  pthread_mutex_lock(&w->saving);
  change c;
  attn_status status = collect(w, &c) ? ATTN_OK : no_memory();
  if (!status && (c.fresh.count || c.forgotten_count)) {
    if (w->make_folders) status = wisdom_file_folders(w->path);
    int lock = status ? -1 : wisdom_file_lock(w->path);
    if (!status && lock < 0) status = ATTN_ERROR_IO;
    if (!status) status = apply(w, &c);
    if (lock >= 0) wisdom_file_unlock(lock);
    if (!status) settle_change(w, &c);
  }
  wisdom_store_free(&c.fresh);
  pthread_mutex_unlock(&w->saving);
  return status;
}

/* ---- Import, export, forget ------------------------------------------------------------------ */

static attn_status take_in(wisdom *w, wisdom_store *from) {
  bool enough = true;
  pthread_mutex_lock(&w->lock);
  for (int i = 0; i < from->count && enough; i++) {
    from->entries[i].fresh = true;
    enough = wisdom_store_add(&w->store, &from->entries[i], false);
  }
  enough = enough && wisdom_store_trim(&w->store, w->machine);
  w->generation++;
  pthread_mutex_unlock(&w->lock);
  wisdom_store_free(from);
  return enough ? ATTN_OK : no_memory();
}

attn_status wisdom_import(wisdom *w, const char *path, attn_wisdom_file *out) {
  attn_wisdom_file file;
  wisdom_store store;
  wisdom_store_init(&store, &w->allocator);
  attn_status status = wisdom_gather(&store, path, false, NULL, NULL, &file);
  if (out && status != ATTN_ERROR_MEMORY) *out = file;
  if (status) {
    wisdom_store_free(&store);
    return status;
  }
  wisdom_log_file(w, &file, "");
  return take_in(w, &store);
}

attn_status wisdom_import_text(wisdom *w, const char *text, size_t length, attn_wisdom_file *out) {
  attn_wisdom_file file = { .path = "" };
  wisdom_store store;
  wisdom_store_init(&store, &w->allocator);
  attn_status status = ATTN_OK;
  if (!wisdom_text_read(&store, text, length, NULL, NULL, false, &file)) status = no_memory();
  if (!status && out) *out = file;
  if (!status) status = wisdom_check_place(&file, "");
  if (status) {
    wisdom_store_free(&store);
    return status;
  }
  wisdom_log_file(w, &file, "");
  return take_in(w, &store);
}

/* Copies all that is known; `store` has been initialised. */
static bool copy_all(wisdom *w, wisdom_store *store) {
  pthread_mutex_lock(&w->lock);
  bool enough = wisdom_settle(w);
  for (int i = 0; i < w->store.count && enough; i++)
    enough = wisdom_store_add(store, &w->store.entries[i], false);
  pthread_mutex_unlock(&w->lock);
  return enough && add_description(w, store);
}

attn_status wisdom_export(wisdom *w, const char *path) {
  wisdom_store store;
  wisdom_store_init(&store, &w->allocator);
  attn_status status = copy_all(w, &store) ? wisdom_replace(&store, path) : no_memory();
  wisdom_store_free(&store);
  return status;
}

attn_status wisdom_export_text(wisdom *w, char **out, size_t *length) {
  wisdom_text text;
  wisdom_store store;
  wisdom_store_init(&store, &w->allocator);
  bool enough = copy_all(w, &store) && wisdom_text_write(&store, &w->allocator, &text);
  wisdom_store_free(&store);
  if (!enough) return no_memory();
  *out = text.bytes;
  if (length) *length = text.length;
  return ATTN_OK;
}

typedef struct filter {
  uint64_t machine;
  const char *implementation;
} filter;

static bool other_than(void *user, const wisdom_entry *e, int number) {
  const filter *f = user;
  (void)number;
  return !wisdom_matches(e, f->machine, f->implementation);
}

attn_status wisdom_forget(wisdom *w, uint64_t machine, const char *implementation) {
  filter f = { machine, implementation ? implementation : "" };
  if (*f.implementation && !wisdom_name_ok(f.implementation))
    return core_fail(ATTN_ERROR_VALUE, "implementation of value \"%.80s\" is no name",
                     implementation);
  attn_status status = ATTN_OK;
  pthread_mutex_lock(&w->lock);
  if (!machine && !*f.implementation) w->forgotten_count = 0; // all: includes those before
  if (w->forgotten_count == WISDOM_FORGOTTEN) {
    status = core_fail(ATTN_ERROR_VALUE, "more than %d calls to forget without a save",
                       WISDOM_FORGOTTEN);
  } else if (!wisdom_settle(w) || !wisdom_store_filter(&w->store, other_than, &f)) {
    status = no_memory();
  } else {
    wisdom_forgotten *x = &w->forgotten[w->forgotten_count++];
    x->machine = machine, x->when = wisdom_now(w);
    snprintf(x->implementation, sizeof(x->implementation), "%s", f.implementation);
    w->generation++;
  }
  pthread_mutex_unlock(&w->lock);
  return status;
}
