// SPDX-License-Identifier: Apache-2.0
/* Instruction sets: what the CPU has and the operating system saves, and what follows from it. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>

#include "hardware/internal.h"

/* The CPUID words of a processor with everything that is looked for. */
static const hardware_cpuid everything = {
  .leaf1_ecx = 1u << 12 | 1u << 20 | 1u << 27 | 1u << 28 | 1u << 29,
  .leaf7_ebx = 1u << 5 | 1u << 16 | 1u << 17 | 1u << 30 | 1u << 31,
  .leaf7_ecx = 1u << 11,
  .leaf7_edx = 1u << 22 | 1u << 23 | 1u << 24 | 1u << 25,
  .leaf7_1_eax = 1u << 4 | 1u << 5,
  .xcr0 = 0x600e7,
};

enum {
  AVX2 = ATTN_CPU_SSE42 | ATTN_CPU_AVX | ATTN_CPU_AVX2 | ATTN_CPU_FMA | ATTN_CPU_F16C,
  AVX512 = ATTN_CPU_AVX512F | ATTN_CPU_AVX512BW | ATTN_CPU_AVX512DQ | ATTN_CPU_AVX512VL,
  AVX512_MORE = ATTN_CPU_AVX512VNNI | ATTN_CPU_AVX512BF16 | ATTN_CPU_AVX512FP16,
  AMX = ATTN_CPU_AMX_TILE | ATTN_CPU_AMX_INT8 | ATTN_CPU_AMX_BF16
};

static int flags_of(const hardware_cpuid *id, char notes[256]) {
  notes[0] = '\0';
  return hardware_x86_flags(id, (hardware_notes){ notes, 256 });
}

static void test_everything_is_seen_when_the_system_saves_it(void **state) {
  (void)state;
  char notes[256];
  assert_int_equal(flags_of(&everything, notes),
                   AVX2 | ATTN_CPU_AVXVNNI | AVX512 | AVX512_MORE | AMX);
  assert_non_null(strstr(notes, "ARCH_REQ_XCOMP_PERM"));
}

static void test_registers_that_are_not_saved_are_not_used(void **state) {
  (void)state;
  char notes[256];
  hardware_cpuid id = everything;
  id.xcr0 = 0xe7; /* no tiles */
  assert_int_equal(flags_of(&id, notes) & AMX, 0);
  assert_non_null(strstr(notes, "AMX not used"));
  id.xcr0 = 0x7; /* no zmm either */
  assert_int_equal(flags_of(&id, notes), AVX2 | ATTN_CPU_AVXVNNI);
  assert_non_null(strstr(notes, "AVX-512 not used"));
  id.xcr0 = 0x27; /* opmask without the upper halves */
  assert_int_equal(flags_of(&id, notes) & AVX512, 0);
  id.xcr0 = 0x3; /* no ymm */
  assert_int_equal(flags_of(&id, notes), ATTN_CPU_SSE42);
  assert_non_null(strstr(notes, "AVX not used"));
  id.xcr0 = 0xe3; /* zmm without ymm: a system that cannot be */
  assert_int_equal(flags_of(&id, notes), ATTN_CPU_SSE42);
  id = everything;
  id.leaf1_ecx &= ~(1u << 27); /* no OSXSAVE: XCR0 cannot be read */
  assert_int_equal(flags_of(&id, notes), ATTN_CPU_SSE42);
}

static void test_each_bit_counts_alone(void **state) {
  (void)state;
  char notes[256];
  const struct {
    size_t word;
    int bit, flag;
  } bits[] = {
#define WORD(name) offsetof(hardware_cpuid, name)
    { WORD(leaf1_ecx), 12, ATTN_CPU_FMA },        { WORD(leaf1_ecx), 29, ATTN_CPU_F16C },
    { WORD(leaf7_ebx), 5, ATTN_CPU_AVX2 },        { WORD(leaf7_ebx), 17, ATTN_CPU_AVX512DQ },
    { WORD(leaf7_ebx), 30, ATTN_CPU_AVX512BW },   { WORD(leaf7_ebx), 31, ATTN_CPU_AVX512VL },
    { WORD(leaf7_ecx), 11, ATTN_CPU_AVX512VNNI }, { WORD(leaf7_edx), 22, ATTN_CPU_AMX_BF16 },
    { WORD(leaf7_edx), 23, ATTN_CPU_AVX512FP16 }, { WORD(leaf7_edx), 25, ATTN_CPU_AMX_INT8 },
    { WORD(leaf7_1_eax), 4, ATTN_CPU_AVXVNNI },   { WORD(leaf7_1_eax), 5, ATTN_CPU_AVX512BF16 },
  };
  int all = flags_of(&everything, notes);
  for (size_t i = 0; i < sizeof bits / sizeof bits[0]; i++) {
    hardware_cpuid id = everything;
    *(uint32_t *)(void *)((char *)&id + bits[i].word) &= ~(1u << bits[i].bit);
    assert_int_equal(flags_of(&id, notes), all & ~bits[i].flag);
  }
}

static void test_the_level_needs_all_of_its_parts(void **state) {
  (void)state;
  assert_int_equal(hardware_isa(0), ATTN_ISA_SCALAR);
  assert_int_equal(hardware_isa(AVX2), ATTN_ISA_AVX2);
  assert_int_equal(hardware_isa(AVX2 | AVX512), ATTN_ISA_AVX512);
  assert_int_equal(hardware_isa(AVX2 | AVX512 | ATTN_CPU_AVX512BF16), ATTN_ISA_AVX512_BF16);
  assert_int_equal(hardware_isa(AVX2 | ATTN_CPU_AVX512BF16), ATTN_ISA_AVX2);
  assert_int_equal(hardware_isa(AVX2 | AVX512 | AMX), ATTN_ISA_AVX512);
  assert_int_equal(hardware_isa(AVX2 | AVX512 | AMX | ATTN_CPU_AVX512BF16), ATTN_ISA_AMX);
  const int parts2[] = { ATTN_CPU_AVX2, ATTN_CPU_FMA, ATTN_CPU_F16C };
  for (size_t i = 0; i < 3; i++) {
    assert_int_equal(hardware_isa(AVX2 & ~parts2[i]), ATTN_ISA_SCALAR);
    assert_int_equal(hardware_isa((AVX2 | AVX512) & ~parts2[i]), ATTN_ISA_SCALAR);
  }
  const int parts512[] = { ATTN_CPU_AVX512F, ATTN_CPU_AVX512BW, ATTN_CPU_AVX512DQ,
                           ATTN_CPU_AVX512VL };
  for (size_t i = 0; i < 4; i++)
    assert_int_equal(hardware_isa((AVX2 | AVX512) & ~parts512[i]), ATTN_ISA_AVX2);
  assert_int_equal(hardware_isa(ATTN_CPU_NEON | ATTN_CPU_SVE), ATTN_ISA_NEON);
  assert_int_equal(hardware_isa(ATTN_CPU_SVE | ATTN_CPU_ARM_BF16), ATTN_ISA_SCALAR);
}

static void test_arch_names_level_and_extensions(void **state) {
  (void)state;
  char arch[32], cut[8];
  hardware_arch(AVX2 | AVX512 | ATTN_CPU_AVX512BF16 | ATTN_CPU_AVX512VNNI, 0, arch, sizeof arch);
  assert_string_equal(arch, "avx512 bf16 vnni");
  hardware_arch(AVX2, 0, arch, sizeof arch);
  assert_string_equal(arch, "avx2");
  hardware_arch(AVX2 | AVX512 | AVX512_MORE | AMX, 0, arch, sizeof arch);
  assert_string_equal(arch, "avx512 bf16 fp16 vnni amx");
  hardware_arch(ATTN_CPU_NEON, 256, arch, sizeof arch);
  assert_string_equal(arch, "neon");
  const int arm = ATTN_CPU_NEON | ATTN_CPU_ARM_DOT | ATTN_CPU_ARM_BF16 | ATTN_CPU_ARM_I8MM |
                  ATTN_CPU_ARM_FP16 | ATTN_CPU_SVE;
  hardware_arch(arm, 0, arch, sizeof arch);
  assert_string_equal(arch, "neon bf16 fp16 dot i8mm sve");
  hardware_arch(arm, 2048, arch, sizeof arch);
  assert_string_equal(arch, "neon bf16 fp16 dot i8mm sve2048");
  hardware_arch(AVX2 | AVX512 | AVX512_MORE, 0, cut, sizeof cut);
  assert_int_equal(strlen(cut), sizeof cut - 1);
}

static void test_arm_words(void **state) {
  (void)state;
  assert_int_equal(hardware_arm_flags(0, 0), 0);
  assert_int_equal(hardware_arm_flags(1ul << 10, 0), ATTN_CPU_ARM_FP16);
  assert_int_equal(hardware_arm_flags(1ul << 1 | 1ul << 20 | 1ul << 22, 1ul << 13 | 1ul << 14),
                   ATTN_CPU_NEON | ATTN_CPU_ARM_DOT | ATTN_CPU_SVE | ATTN_CPU_ARM_I8MM |
                       ATTN_CPU_ARM_BF16);
  assert_int_equal(hardware_arm_flags(0, 1ul << 20), 0);
  char name[64];
  hardware_arm_name("processor\t: 0\nCPU implementer\t: 0x41\nCPU part\t: 0xd40\n", name,
                    sizeof name);
  assert_string_equal(name, "Arm Neoverse V1");
  hardware_arm_name("CPU implementer : 0x51\nCPU part : 0x1\n", name, sizeof name);
  assert_string_equal(name, "Arm implementer 0x51 part 0x1");
  const char *unknown[] = { "", "CPU part: 0xd40\n", "CPU implementer : \nCPU part : x\n" };
  for (size_t i = 0; i < 3; i++) {
    hardware_arm_name(unknown[i], name, sizeof name);
    assert_string_equal(name, "");
  }
}

static void test_notes_join_and_are_cut(void **state) {
  (void)state;
  char text[24] = "";
  hardware_notes notes = { text, sizeof text };
  hardware_note(notes, "one %d", 1);
  hardware_note(notes, "two");
  assert_string_equal(text, "one 1; two");
  hardware_note(notes, "%s", "more than there is room for");
  assert_int_equal(strlen(text), sizeof text - 1);
  assert_string_equal(text + sizeof text - 4, "...");
  char before[24];
  memcpy(before, text, sizeof text);
  hardware_note(notes, "again");
  assert_string_equal(text + sizeof text - 4, "...");
  assert_memory_equal(text, before, 16);
  hardware_note((hardware_notes){ NULL, 100 }, "nowhere");
}

static void test_text_from_drivers_is_made_plain(void **state) {
  (void)state;
  char out[16];
  hardware_text_copy(out, sizeof out, "  AMD   EPYC\t9654  ");
  assert_string_equal(out, "AMD EPYC 9654");
  hardware_text_copy(out, sizeof out, "a\x1b[1m\x7f\xc3\xa9");
  assert_string_equal(out, "a?[1m???");
  hardware_text_copy(out, 4, "abcdef");
  assert_string_equal(out, "abc");
  hardware_text_copy(out, 4, "ab cd");
  assert_string_equal(out, "ab");
  hardware_text_copy(out, 1, "ab");
  assert_string_equal(out, "");
}

int main(void) {
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_everything_is_seen_when_the_system_saves_it),
    cmocka_unit_test(test_registers_that_are_not_saved_are_not_used),
    cmocka_unit_test(test_each_bit_counts_alone),
    cmocka_unit_test(test_the_level_needs_all_of_its_parts),
    cmocka_unit_test(test_arch_names_level_and_extensions),
    cmocka_unit_test(test_arm_words),
    cmocka_unit_test(test_notes_join_and_are_cut),
    cmocka_unit_test(test_text_from_drivers_is_made_plain),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
