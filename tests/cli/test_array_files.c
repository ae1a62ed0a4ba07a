// SPDX-License-Identifier: Apache-2.0
/* Array files: damage of any kind is seen, what is no file is refused with its reason, and saving
 * replaces a file whole or not at all. */
#include "array_fixtures.h"

#include <signal.h>
#include <sys/resource.h>

static const struct fixture fixtures[] = {
  { FIXTURE(f8) },         { FIXTURE(f4_fortran) },   { FIXTURE(f4_big) },
  { FIXTURE(f2) },         { FIXTURE(bool) },         { FIXTURE(i8_scalar) },
  { FIXTURE(u2_empty) },   { FIXTURE(bf16) },         { FIXTURE(e4m3) },
  { FIXTURE(e5m2) },       { FIXTURE(structured) },   { FIXTURE(object) },
  { FIXTURE(complex) },    { FIXTURE(i4_version2) },  { FIXTURE(u4_version3) },
  { FIXTURE(npz_stored) }, { FIXTURE(npz_deflated) }, { FIXTURE(safetensors) },
};

enum { FIXTURES = sizeof fixtures / sizeof fixtures[0] };

static void expect_file(const char *path, const void *bytes, size_t size) {
  static unsigned char have[65536];
  FILE *f = fopen(path, "rb");
  assert_non_null(f);
  assert_int_equal(fread(have, 1, sizeof have, f), size);
  fclose(f);
  assert_memory_equal(have, bytes, size);
}

static int files_in(const char *folder) {
  DIR *d = opendir(folder);
  assert_non_null(d);
  int count = -2; /* . and .. */
  while (readdir(d) != NULL) count++;
  closedir(d);
  return count;
}

/* ---- Damage of any kind ---------------------------------------------------------------------- */

static void touch(const array *a) {
  volatile unsigned char sum = 0;
  for (size_t i = 0; i < a->bytes; i++) sum = (unsigned char)(sum + ((unsigned char *)a->data)[i]);
}

static const parser parsers[] = { parse_npy, array_parse_npz, array_parse_safetensors };

static void files_cut_short_are_refused(void **state) {
  (void)state;
  for (size_t f = 0; f < FIXTURES; f++)
    for (size_t size = 0; size < fixtures[f].size; size++) {
      void *copy = exact_copy(fixtures[f].bytes, size);
      for (size_t p = 0; p < 3; p++) {
        array a;
        assert_int_equal(parsers[p](copy, size, p ? "k" : NULL, &a, err, sizeof err), -1);
        assert_true(strlen(err) > 10);
        assert_int_equal(parsers[p](copy, size, NULL, &a, NULL, 0), -1);
      }
      free(copy);
    }
}

static void changed_bytes_stay_within_the_file(void **state) {
  (void)state;
  for (size_t f = 0; f < FIXTURES; f++)
    for (size_t at = 0; at < fixtures[f].size; at++)
      for (int change = 0; change < 4; change++) {
        unsigned char *copy = exact_copy(fixtures[f].bytes, fixtures[f].size);
        copy[at] = (unsigned char[]){ (unsigned char)(copy[at] ^ 1),
                                      (unsigned char)(copy[at] ^ 0x80), 0, 0xff }[change];
        for (size_t p = 0; p < 3; p++) {
          array a;
          if (parsers[p](copy, fixtures[f].size, p ? "k" : NULL, &a, err, sizeof err) != 0)
            continue;
          assert_int_equal(array_to_c_order(&a, err, sizeof err), 0);
          touch(&a);
          array_release(&a);
        }
        free(copy);
      }
}

/* ---- Files ----------------------------------------------------------------------------------- */

static void things_that_are_not_files_are_refused(void **state) {
  (void)state;
  assert_int_equal(mkdir("folder.npy", 0777), 0);
  assert_int_equal(mkfifo("fifo.npy", 0666), 0);
  write_file("empty.npy", "", 0);
  expect_load_refused("missing.npy", "missing.npy: cannot open: No such file");
  expect_load_refused("missing.npz:q", "missing.npz: cannot open: No such file");
  expect_load_refused("folder.npy", "folder.npy: Is a directory");
  expect_load_refused("fifo.npy", "fifo.npy: not a regular file but a FIFO");
  expect_load_refused("empty.npy", "empty.npy: file is empty");
  expect_load_refused("empty.txt", "not a name of the form");
  expect_load_refused("empty.npy:q", "not a name of the form");
  expect_load_refused("", "not a name of the form");
  expect_load_refused(".npy", "not a name of the form");
  if (geteuid() != 0) {
    write_file("secret.npy", FIXTURE(f8));
    assert_int_equal(chmod("secret.npy", 0), 0);
    expect_load_refused("secret.npy", "secret.npy: cannot open: Permission denied");
  }
}

static void names_may_hold_colons(void **state) {
  (void)state;
  static const int64_t shape[] = { 2, 3 };
  array a;
  buffer b = { .size = 0 };
  put_safetensors(&b, "{\"w.npz:0\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}", 1);
  write_file("c.safetensors", b.bytes, b.size);
  assert_int_equal(array_load("c.safetensors:w.npz:0", &a, err, sizeof err), 0);
  array_release(&a);
  assert_int_equal(array_load("c.safetensors", &a, err, sizeof err), 0);
  array_release(&a);
  write_file("x.npz:y.npy", FIXTURE(f8));
  assert_int_equal(array_load("x.npz:y.npy", &a, err, sizeof err), 0);
  expect_array(&a, ARRAY_F64, 2, shape, f8);
  array_release(&a);
  assert_int_equal(mkdir("d.npz:e", 0777), 0);
  write_file("d.npz:e/f.npz", FIXTURE(npz_stored));
  assert_int_equal(array_load("d.npz:e/f.npz:q", &a, err, sizeof err), 0);
  expect_array(&a, ARRAY_F32, 2, shape, f4);
  array_release(&a);
}

/* Holes, so that no disk space is used. */
static void large_files_are_mapped(void **state) {
  (void)state;
  buffer b = { .size = 0 };
  array a;
  put_npy(&b, 1, NPY("'|u1'", "False", "(268435456,)"), 0);
  write_file("large.npy", b.bytes, b.size);
  if (truncate("large.npy", (off_t)b.size + 268435456) != 0) skip();
  assert_int_equal(array_load("large.npy", &a, err, sizeof err), 0);
  assert_true(a.mapped);
  assert_int_equal(a.bytes, 268435456);
  assert_int_equal(((unsigned char *)a.data)[268435455], 0);
  array_release(&a);
  /* Trailing bytes, or no address space for so much (valgrind). */
  if (truncate("large.npy", (off_t)1 << 42) == 0) expect_load_refused("large.npy", "large.npy: ");
  assert_int_equal(unlink("large.npy"), 0);
}

/* ---- Saving ---------------------------------------------------------------------------------- */

static array array_of(const void *data, array_dtype dtype, int64_t rows, int64_t columns) {
  array a = {
    .dtype = dtype, .ndim = 2, .shape = { rows, columns }, .data = (void *)(uintptr_t)data
  };
  a.bytes = (size_t)(rows * columns) * array_dtype_size(dtype);
  return a;
}

static void save(const char *path, const array *a) {
  if (array_save_npy(path, a, err, sizeof err) != 0) fail_msg("%s", err);
}

static void files_are_saved_as_numpy_writes_them(void **state) {
  (void)state;
  static const struct fixture same[] = {
    { FIXTURE(f8) },   { FIXTURE(f4_fortran) }, { FIXTURE(f2) },
    { FIXTURE(bool) }, { FIXTURE(i8_scalar) },  { FIXTURE(u2_empty) },
  };
  for (size_t i = 0; i < sizeof same / sizeof same[0]; i++) {
    array a;
    assert_int_equal(array_parse_npy(same[i].bytes, same[i].size, &a, err, sizeof err), 0);
    save("saved.npy", &a);
    expect_file("saved.npy", same[i].bytes, same[i].size);
  }
  static const int64_t shape[] = { 2, 3 };
  array half = array_of(bf16, ARRAY_BF16, 2, 3), a;
  save("saved.npy", &half);
  assert_int_equal(array_load("saved.npy", &a, err, sizeof err), 0);
  expect_array(&a, ARRAY_U16, 2, shape, bf16);
  array_release(&a);
}

static void long_headers_are_padded_as_numpy_does(void **state) {
  (void)state;
  unsigned char header[ARRAY_NPY_HEADER_MAX];
  array a = { .dtype = ARRAY_F8E5M2, .ndim = ARRAY_MAX_DIMS, .fortran_order = 1 };
  for (int d = 0; d < a.ndim; d++) a.shape[d] = INT64_MAX;
  assert_int_equal(array_npy_header(&a, header), 256); /* all four as NumPy 2.4.6 */
  array edge = { .dtype = ARRAY_U8, .ndim = 4, .shape = { 1, 1000000000000, 1000000000000 } };
  edge.shape[3] = 10000000;
  assert_int_equal(array_npy_header(&edge, header), 128);
  edge.shape[3] = 100000000;
  assert_int_equal(array_npy_header(&edge, header), 192);
  edge.fortran_order = 1;
  edge.shape[0] = 7;
  edge.shape[3] = 1000000000000000000;
  assert_int_equal(array_npy_header(&edge, header), 128);
}

static void saving_keeps_modes_and_links(void **state) {
  (void)state;
  struct stat st;
  array a = array_of(f8, ARRAY_F64, 2, 3);
  assert_int_equal(mkdir("out", 0777), 0);
  mode_t mask = umask(027);
  save("out/new.npy", &a);
  umask(mask);
  assert_int_equal(stat("out/new.npy", &st), 0);
  assert_int_equal(st.st_mode & 07777, 0640);
  assert_int_equal(chmod("out/new.npy", 0604), 0);
  assert_int_equal(symlink("out/new.npy", "link.npy"), 0);
  assert_int_equal(symlink("link.npy", "link2.npy"), 0);
  array b = array_of(f4, ARRAY_F32, 2, 3);
  save("link2.npy", &b);
  assert_int_equal(lstat("link2.npy", &st), 0);
  assert_true(S_ISLNK(st.st_mode));
  assert_int_equal(lstat("out/new.npy", &st), 0);
  assert_int_equal(st.st_mode & 07777, 0604);
  assert_int_equal(st.st_size, 128 + 24);
  char absolute[4096];
  assert_non_null(getcwd(absolute, sizeof absolute - 32));
  strcat(absolute, "/out/later.npy");
  assert_int_equal(symlink(absolute, "dangling.npy"), 0);
  save("dangling.npy", &a);
  expect_file(absolute, FIXTURE(f8));
  assert_int_equal(symlink("loop.npy", "loop.npy"), 0);
  assert_int_equal(array_save_npy("loop.npy", &a, err, sizeof err), -1);
  expect_message("Too many levels of symbolic links");
  assert_int_equal(files_in("out"), 2);
}

static void expect_not_saved(const char *path, const array *a, const char *part) {
  assert_int_equal(array_save_npy(path, a, err, sizeof err), -1);
  expect_message(part);
}

static void a_failed_save_leaves_the_old_file(void **state) {
  (void)state;
  static const float much[50000];
  array good = array_of(f8, ARRAY_F64, 2, 3), big = array_of(much, ARRAY_F32, 500, 100);
  assert_int_equal(mkdir("full", 0777), 0);
  save("full/a.npy", &good);
  struct rlimit old, tight;
  assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
  tight = old;
  tight.rlim_cur = 100000;
  void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
  assert_int_equal(setrlimit(RLIMIT_FSIZE, &tight), 0);
  int there = array_save_npy("full/a.npy", &big, err, sizeof err);
  int fresh = array_save_npy("full/b.npy", &big, err, sizeof err);
  setrlimit(RLIMIT_FSIZE, &old);
  signal(SIGXFSZ, handler);
  assert_int_equal(there, -1);
  assert_int_equal(fresh, -1);
  expect_message("full/b.npy: cannot write: File too large");
  expect_file("full/a.npy", FIXTURE(f8));
  assert_int_equal(files_in("full"), 1);

  assert_int_equal(mkdir("full/folder", 0777), 0);
  assert_int_equal(mkfifo("full/fifo", 0666), 0);
  expect_not_saved("full/folder", &good, "Is a directory");
  expect_not_saved("full/folder/", &good, "Is a directory");
  expect_not_saved("full/fifo", &good, "not a regular file but a FIFO");
  expect_not_saved("full/a.npy/x.npy", &good, "Not a directory");
  expect_not_saved("nowhere/x.npy", &good, "nowhere/x.npy: cannot open the folder: No such file");
  expect_not_saved("/dev/null", &good, "not a regular file but a device");
  expect_not_saved("", &good, "No such file");
  assert_int_equal(files_in("full"), 3);
}

static void arrays_that_contradict_themselves_are_not_saved(void **state) {
  (void)state;
  array a = array_of(f8, ARRAY_F64, 2, 3);
  a.bytes--;
  expect_not_saved("bad.npy", &a, "needs 48 bytes, the array has 47");
  a = array_of(f8, (array_dtype)99, 2, 3);
  expect_not_saved("bad.npy", &a, "unknown dtype 99");
  a = array_of(f8, ARRAY_F64, 2, 3);
  a.ndim = 9;
  expect_not_saved("bad.npy", &a, "9 dimensions");
  a.ndim = 2;
  a.shape[1] = -3;
  expect_not_saved("bad.npy", &a, "negative size -3 at dimension 1");
  assert_int_equal(access("bad.npy", F_OK), -1);
}

int main(void) {
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(files_cut_short_are_refused),
    cmocka_unit_test(changed_bytes_stay_within_the_file),
    cmocka_unit_test(things_that_are_not_files_are_refused),
    cmocka_unit_test(names_may_hold_colons),
    cmocka_unit_test(large_files_are_mapped),
    cmocka_unit_test(files_are_saved_as_numpy_writes_them),
    cmocka_unit_test(long_headers_are_padded_as_numpy_does),
    cmocka_unit_test(saving_keeps_modes_and_links),
    cmocka_unit_test(a_failed_save_leaves_the_old_file),
    cmocka_unit_test(arrays_that_contradict_themselves_are_not_saved),
  };
  return cmocka_run_group_tests_name("array_files", tests, enter_folder, leave_folder);
}
