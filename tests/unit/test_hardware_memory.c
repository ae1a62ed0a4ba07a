// SPDX-License-Identifier: Apache-2.0
/* Memory within cgroup limits, on made-up /proc and /sys trees. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "hardware_tree.h"
#include "hardware/internal.h"

#define MB (INT64_C(1) << 20)
#define GB (INT64_C(1) << 30)

static tree t;
static char notes[384];

static int setup(void **state) {
  (void)state;
  tree_make(&t);
  notes[0] = '\0';
  return 0;
}

static int teardown(void **state) {
  (void)state;
  tree_remove(&t);
  return 0;
}

static hardware_memory read_memory(void) {
  hardware_memory memory = { -1, -1 };
  hardware_memory_read(t.root, &memory, (hardware_notes){ notes, sizeof notes });
  return memory;
}

/* 64 GiB, of which 48 GiB are free. */
static void machine(void) {
  tree_write(&t, "/proc/meminfo",
             "MemTotal:       67108864 kB\nMemFree:         1048576 kB\n"
             "MemAvailable:   50331648 kB\nBuffers:            2276 kB\n");
}

static void version2(const char *group) {
  char text[512];
  snprintf(text, sizeof text, "0::%s\n", group);
  tree_write(&t, "/proc/self/cgroup", text);
  tree_write(&t, "/proc/self/mountinfo",
             "22 1 0:20 / /proc rw,relatime - proc proc rw\n"
             "30 1 0:26 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n");
}

static void test_without_cgroups_the_machine_counts(void **state) {
  (void)state;
  machine();
  hardware_memory m = read_memory();
  assert_int_equal(m.total, 64 * GB);
  assert_int_equal(m.available, 48 * GB);
  assert_string_equal(notes, "");
}

static void test_v2_limit_and_what_is_left_of_it(void **state) {
  (void)state;
  machine();
  version2("/box");
  tree_write(&t, "/sys/fs/cgroup/box/memory.max", "8589934592\n");
  tree_write(&t, "/sys/fs/cgroup/box/memory.current", "3221225472\n");
  tree_write(&t, "/sys/fs/cgroup/box/memory.stat",
             "anon 1\nfile 2\ninactive_anon 99999999999\ninactive_file 1073741824\n");
  hardware_memory m = read_memory();
  assert_int_equal(m.total, 8 * GB);
  assert_int_equal(m.available, 6 * GB); /* 8 - (3 - 1 reclaimable) */
  assert_string_equal(notes, "");
}

static void test_v2_max_is_no_limit(void **state) {
  (void)state;
  machine();
  version2("/box");
  tree_write(&t, "/sys/fs/cgroup/box/memory.max", "max\n");
  tree_write(&t, "/sys/fs/cgroup/box/memory.current", "3221225472\n");
  hardware_memory m = read_memory();
  assert_int_equal(m.total, 64 * GB);
  assert_int_equal(m.available, 48 * GB);
}

static void test_v2_the_smallest_of_all_parents_counts(void **state) {
  (void)state;
  machine();
  version2("/slice/service/inner");
  tree_write(&t, "/sys/fs/cgroup/slice/service/inner/memory.max", "max\n");
  tree_write(&t, "/sys/fs/cgroup/slice/service/memory.max", "17179869184\n");
  tree_write(&t, "/sys/fs/cgroup/slice/service/memory.current", "1073741824\n");
  tree_write(&t, "/sys/fs/cgroup/slice/memory.max", "4294967296\n");
  tree_write(&t, "/sys/fs/cgroup/slice/memory.current", "2147483648\n");
  hardware_memory m = read_memory();
  assert_int_equal(m.total, 4 * GB);
  assert_int_equal(m.available, 2 * GB);
}

static void test_v2_total_and_available_may_come_from_different_groups(void **state) {
  (void)state;
  machine();
  version2("/a/b");
  tree_write(&t, "/sys/fs/cgroup/a/b/memory.max", "4294967296\n");
  tree_write(&t, "/sys/fs/cgroup/a/b/memory.current", "0\n");
  tree_write(&t, "/sys/fs/cgroup/a/memory.max", "8589934592\n");
  tree_write(&t, "/sys/fs/cgroup/a/memory.current", "7516192768\n");
  hardware_memory m = read_memory();
  assert_int_equal(m.total, 4 * GB);
  assert_int_equal(m.available, 1 * GB);
}

static void test_a_group_s_own_namespace_shows_its_top(void **state) {
  (void)state;
  machine();
  version2("/");
  tree_write(&t, "/sys/fs/cgroup/memory.max", "1073741824\n");
  tree_write(&t, "/sys/fs/cgroup/memory.current", "268435456\n");
  hardware_memory m = read_memory();
  assert_int_equal(m.total, 1 * GB);
  assert_int_equal(m.available, 768 * MB);
}

/* /proc/self/cgroup may name a group of the host that this mount does not show. */
static void test_a_path_outside_the_mount_means_the_mount_s_top(void **state) {
  (void)state;
  const char *groups[] = { "/../../host.slice", "/docker/0123456789ab/sub" };
  const char *tops[] = { "/", "/docker/other" };
  for (size_t i = 0; i < 2; i++) {
    char text[512];
    machine();
    version2(groups[i]);
    snprintf(text, sizeof text, "30 1 0:26 %s /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n", tops[i]);
    tree_write(&t, "/proc/self/mountinfo", text);
    tree_write(&t, "/sys/fs/cgroup/memory.max", "1073741824\n");
    assert_int_equal(read_memory().total, 1 * GB);
  }
}

static void test_a_mount_of_a_part_of_the_hierarchy(void **state) {
  (void)state;
  machine();
  tree_write(&t, "/proc/self/cgroup", "0::/docker/abc/worker\n");
  tree_write(&t, "/proc/self/mountinfo",
             "30 1 0:26 /docker/abc /a\\040b/cgroup rw - cgroup2 cgroup2 rw\n");
  tree_write(&t, "/a b/cgroup/worker/memory.max", "2147483648\n");
  tree_write(&t, "/a b/cgroup/memory.max", "max\n");
  assert_int_equal(read_memory().total, 2 * GB);
  /* Same beginning, other group. */
  tree_write(&t, "/proc/self/cgroup", "0::/docker/abcdef\n");
  assert_int_equal(read_memory().total, 64 * GB);
}

static void version1(void) {
  tree_write(&t, "/proc/self/cgroup",
             "9:name=systemd:/\n4:cpu,memory:/box/inner\n3:cpuset:/other\n0::/\n");
  tree_write(&t, "/proc/self/mountinfo",
             "32 31 0:29 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n"
             "35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
             "41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n");
}

static void test_v1_limit(void **state) {
  (void)state;
  machine();
  version1();
  tree_write(&t, "/sys/fs/cgroup/memory/box/inner/memory.limit_in_bytes", "4294967296\n");
  tree_write(&t, "/sys/fs/cgroup/memory/box/inner/memory.usage_in_bytes", "2147483648\n");
  tree_write(&t, "/sys/fs/cgroup/memory/box/inner/memory.stat",
             "inactive_file 5\nhierarchical_memory_limit 8589934592\n"
             "total_inactive_file 1073741824\n");
  tree_write(&t, "/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  hardware_memory m = read_memory();
  assert_int_equal(m.total, 4 * GB);
  assert_int_equal(m.available, 3 * GB);
  assert_string_equal(notes, "");
}

static void test_v1_unlimited_and_the_limit_of_an_invisible_parent(void **state) {
  (void)state;
  machine();
  version1();
  tree_write(&t, "/sys/fs/cgroup/memory/box/inner/memory.limit_in_bytes", "9223372036854771712\n");
  tree_write(&t, "/sys/fs/cgroup/memory/box/inner/memory.usage_in_bytes", "2147483648\n");
  hardware_memory m = read_memory();
  assert_int_equal(m.total, 64 * GB);
  assert_int_equal(m.available, 48 * GB);
  tree_write(&t, "/sys/fs/cgroup/memory/box/inner/memory.stat",
             "hierarchical_memory_limit 8589934592\n");
  m = read_memory();
  assert_int_equal(m.total, 8 * GB);
  assert_int_equal(m.available, 6 * GB);
}

static void test_an_exhausted_limit_is_not_unknown(void **state) {
  (void)state;
  machine();
  version2("/box");
  tree_write(&t, "/sys/fs/cgroup/box/memory.max", "1073741824\n");
  tree_write(&t, "/sys/fs/cgroup/box/memory.current", "2147483648\n");
  hardware_memory m = read_memory();
  assert_int_equal(m.total, 1 * GB);
  assert_int_equal(m.available, 1);
}

static void test_a_limit_without_usage_still_bounds(void **state) {
  (void)state;
  machine();
  version2("/box");
  tree_write(&t, "/sys/fs/cgroup/box/memory.max", "1073741824\n");
  hardware_memory m = read_memory();
  assert_int_equal(m.total, 1 * GB);
  assert_int_equal(m.available, 1 * GB);
  assert_non_null(strstr(notes, "memory.current"));
}

static void test_a_limit_is_no_size(void **state) {
  (void)state;
  version2("/box");
  tree_write(&t, "/sys/fs/cgroup/box/memory.max", "1073741824\n");
  tree_write(&t, "/sys/fs/cgroup/box/memory.current", "0\n");
  hardware_memory m = read_memory();
  assert_int_equal(m.total, 0);
  assert_int_equal(m.available, 0);
  assert_non_null(strstr(notes, "memory size unreadable"));
  assert_non_null(strstr(notes, "free memory unreadable"));
}

static void test_damage_is_as_good_as_absence(void **state) {
  (void)state;
  const char *bad[] = { "",        "\n",           "-1\n",
                        "8 GB\n",  "0x1000\n",     "99999999999999999999999\n",
                        "maxi",    "\xff\xff\xff", "1e9\n",
                        "12\n34\n" };
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
    machine();
    version2("/box");
    tree_write(&t, "/sys/fs/cgroup/box/memory.max", bad[i]);
    hardware_memory m = read_memory();
    if (m.total != 64 * GB || m.available != 48 * GB) fail_msg("memory.max '%s'", bad[i]);
  }
  const char *meminfo[] = { "",
                            "MemTotal:\n",
                            "MemTotal: x kB\n",
                            "MemTotal: -5 kB\n",
                            "MemTotal: 9999999999999999999 kB\n",
                            "MemTotal\n",
                            "MemTotal: 9223372036854775807 kB\n",
                            "XMemTotal: 5 kB\n" };
  for (size_t i = 0; i < sizeof meminfo / sizeof meminfo[0]; i++) {
    tree_write(&t, "/proc/meminfo", meminfo[i]);
    hardware_memory m = read_memory();
    if (m.total != 0 || m.available != 0) fail_msg("meminfo '%s'", meminfo[i]);
  }
  machine();
  const char *groups[] = { "", "0", "0:", "0::", "0::box", "garbage\n\n::\n", ":::::" };
  tree_write(&t, "/sys/fs/cgroup/box/memory.max", "1073741824\n");
  for (size_t i = 0; i < sizeof groups / sizeof groups[0]; i++) {
    tree_write(&t, "/proc/self/cgroup", groups[i]);
    assert_int_equal(read_memory().total, 64 * GB);
  }
  const char *mounts[] = { "",
                           "-",
                           "a b c d e - cgroup2",
                           "1 2 3 / /sys/fs/cgroup rw",
                           " - cgroup2 x y",
                           "1 2 3 / /sys/fs/cgroup rw - cgroup2\n" };
  tree_write(&t, "/proc/self/cgroup", "0::/box\n");
  for (size_t i = 0; i < sizeof mounts / sizeof mounts[0]; i++) {
    tree_write(&t, "/proc/self/mountinfo", mounts[i]);
    assert_int_equal(read_memory().total, 64 * GB);
  }
}

static void test_very_long_lines_and_paths_do_no_harm(void **state) {
  (void)state;
  machine();
  version2("/box");
  char *line = malloc(100001);
  assert_non_null(line);
  memset(line, 'x', 100000);
  line[100000] = '\0';
  memcpy(line, "0::/", 4);
  tree_write(&t, "/proc/self/cgroup", line);
  assert_int_equal(read_memory().total, 64 * GB);
  /* A long line, then the right one. */
  memset(line, 'x', 4);
  line[99990] = '\0';
  strcat(line, "\n0::/box\n");
  tree_write(&t, "/proc/self/cgroup", line);
  tree_write(&t, "/sys/fs/cgroup/box/memory.max", "1073741824\n");
  assert_int_equal(read_memory().total, 1 * GB);
  free(line);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
int main(void) {
  const struct CMUnitTest tests[] = {
    TEST(test_without_cgroups_the_machine_counts),
    TEST(test_v2_limit_and_what_is_left_of_it),
    TEST(test_v2_max_is_no_limit),
    TEST(test_v2_the_smallest_of_all_parents_counts),
    TEST(test_v2_total_and_available_may_come_from_different_groups),
    TEST(test_a_group_s_own_namespace_shows_its_top),
    TEST(test_a_path_outside_the_mount_means_the_mount_s_top),
    TEST(test_a_mount_of_a_part_of_the_hierarchy),
    TEST(test_v1_limit),
    TEST(test_v1_unlimited_and_the_limit_of_an_invisible_parent),
    TEST(test_an_exhausted_limit_is_not_unknown),
    TEST(test_a_limit_without_usage_still_bounds),
    TEST(test_a_limit_is_no_size),
    TEST(test_damage_is_as_good_as_absence),
    TEST(test_very_long_lines_and_paths_do_no_harm),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
