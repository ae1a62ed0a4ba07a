// SPDX-License-Identifier: Apache-2.0
/* Caches and NUMA nodes, on made-up /sys trees. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "hardware_tree.h"
#include "hardware/internal.h"

static tree t;

static int setup(void **state) {
  (void)state;
  tree_make(&t);
  return 0;
}

static int teardown(void **state) {
  (void)state;
  tree_remove(&t);
  return 0;
}

static void write_at(const char *folder, const char *file, const char *text) {
  char path[512];
  snprintf(path, sizeof path, "%s/%s", folder, file);
  tree_write(&t, path, text);
}

static void cache(int cpu, int index, const char *level, const char *type, const char *size,
                  const char *shared) {
  char folder[256];
  snprintf(folder, sizeof folder, "/sys/devices/system/cpu/cpu%d/cache/index%d", cpu, index);
  write_at(folder, "level", level);
  write_at(folder, "type", type);
  write_at(folder, "size", size);
  write_at(folder, "shared_cpu_list", shared);
  write_at(folder, "coherency_line_size", "64\n");
}

/* One socket, 8 cores of two threads, two L3 of four cores each. */
static void machine(void) {
  tree_write(&t, "/sys/devices/system/cpu/cpu0/topology/thread_siblings_list", "0,8\n");
  cache(0, 0, "1\n", "Data\n", "48K\n", "0,8\n");
  cache(0, 1, "1\n", "Instruction\n", "32K\n", "0,8\n");
  cache(0, 2, "2\n", "Unified\n", "1024K\n", "0,8\n");
  cache(0, 3, "3\n", "Unified\n", "32M\n", "0-3,8-11\n");
  tree_write(&t, "/sys/devices/system/node/online", "0-1\n");
  tree_write(&t, "/sys/devices/system/node/has_cpu", "0\n");
}

static hardware_topology read_topology(int cpu) {
  hardware_topology topology;
  memset(&topology, 0x5a, sizeof topology);
  hardware_topology_read(t.root, cpu, &topology);
  return topology;
}

static void test_a_common_machine(void **state) {
  (void)state;
  machine();
  hardware_topology h = read_topology(0);
  assert_int_equal(h.l1_bytes, 48 << 10);
  assert_int_equal(h.l2_bytes, 1 << 20);
  assert_int_equal(h.l3_bytes, 32 << 20);
  assert_int_equal(h.l3_cpus, 8);
  assert_int_equal(h.cache_line, 64);
  assert_int_equal(h.numa_nodes, 1); /* node 1 is memory alone */
}

static void test_an_l2_of_several_cores_is_shared_out(void **state) {
  (void)state;
  machine();
  cache(0, 2, "2\n", "Unified\n", "4096K\n", "0-3\n");
  tree_write(&t, "/sys/devices/system/cpu/cpu0/topology/thread_siblings_list", "0\n");
  assert_int_equal(read_topology(0).l2_bytes, 1 << 20);
}

static void test_the_given_cpu_s_caches_count(void **state) {
  (void)state;
  machine();
  cache(5, 0, "1\n", "Data\n", "32K\n", "5\n");
  cache(5, 2, "2\n", "Unified\n", "512K\n", "5\n");
  hardware_topology h = read_topology(5);
  assert_int_equal(h.l1_bytes, 32 << 10);
  assert_int_equal(h.l2_bytes, 512 << 10);
  assert_int_equal(h.l3_bytes, 0);
}

static void test_nothing_readable_is_unknown(void **state) {
  (void)state;
  hardware_topology h = read_topology(0);
  assert_int_equal(h.l1_bytes, 0);
  assert_int_equal(h.l2_bytes, 0);
  assert_int_equal(h.l3_bytes, 0);
  assert_int_equal(h.l3_cpus, 0);
  assert_int_equal(h.cache_line, 0);
  assert_int_equal(h.numa_nodes, 0);
}

static void test_damaged_sizes_are_unknown(void **state) {
  (void)state;
  const char *bad[] = {
    "",    "K\n", "-48K\n", "48X\n", "48KB\n", "0K\n", "99999999999999999999K\n", "9000000000G\n",
    "\xff"
  };
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
    machine();
    cache(0, 0, "1\n", "Data\n", bad[i], "0\n");
    if (read_topology(0).l1_bytes != 0) fail_msg("size '%s'", bad[i]);
    assert_int_equal(read_topology(0).l2_bytes, 1 << 20);
  }
}

static void test_damaged_lists_and_lines(void **state) {
  (void)state;
  machine();
  cache(0, 3, "3\n", "Unified\n", "32M\n", "0-\n");
  tree_write(&t, "/sys/devices/system/node/has_cpu", "garbage\n");
  tree_write(&t, "/sys/devices/system/cpu/cpu0/cache/index0/coherency_line_size", "-64\n");
  hardware_topology h = read_topology(0);
  assert_int_equal(h.l3_bytes, 32 << 20);
  assert_int_equal(h.l3_cpus, 0);
  assert_int_equal(h.numa_nodes, 0);
  assert_int_equal(h.cache_line, 0);
}

static void test_lists(void **state) {
  (void)state;
  assert_int_equal(hardware_list_count("0"), 1);
  assert_int_equal(hardware_list_count("0-3\n"), 4);
  assert_int_equal(hardware_list_count("0-3,8-11,64"), 9);
  const char *bad[] = {
    "", "\n", ",", "0,", "3-1", "a", "0-70000", "0--1", "1 2", "-1", "0-99999999999999999999"
  };
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
    assert_int_equal(hardware_list_count(bad[i]), 0);
}

static void test_this_machine(void **state) {
  (void)state;
  hardware_topology h;
  char notes[384] = "";
  hardware_topology_detect(&h, (hardware_notes){ notes, sizeof notes });
  if (h.l1_bytes > 0) assert_in_range(h.l1_bytes, 4 << 10, 1 << 20);
  if (h.l2_bytes > 0) assert_in_range(h.l2_bytes, 64 << 10, 256 << 20);
  if (h.l1_bytes > 0 && h.l2_bytes > 0) assert_true(h.l2_bytes > h.l1_bytes);
  if (h.l1_bytes == 0) assert_non_null(strstr(notes, "cache sizes unreadable"));
  if (h.numa_nodes == 0) assert_non_null(strstr(notes, "NUMA nodes unreadable"));
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
int main(void) {
  const struct CMUnitTest tests[] = {
    TEST(test_a_common_machine),
    TEST(test_an_l2_of_several_cores_is_shared_out),
    TEST(test_the_given_cpu_s_caches_count),
    TEST(test_nothing_readable_is_unknown),
    TEST(test_damaged_sizes_are_unknown),
    TEST(test_damaged_lists_and_lines),
    TEST(test_lists),
    TEST(test_this_machine),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
