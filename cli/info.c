// SPDX-License-Identifier: Apache-2.0
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"

static const char help[] =
    "usage: attn info [--hw NAME|FILE] [--profiles] [--json]\n\n"
    "Shows the hardware that was detected, the CPU kernels and their self-check, and the\n"
    "measured peak and bandwidth. What is not known is said to be unknown, and why.\n\n"
    "  --hw NAME|FILE   a profile of the library, or a profile file, in place of this machine\n"
    "  --profiles       the profiles there are\n"
    "  --json           machine-readable\n\n"
    "  attn info\n"
    "  attn info --hw mi300x\n";

static const char *source_name(attn_capability_source s) {
  static const char *const names[] = { "none", "detected", "profile", "compute capability",
                                       "file" };
  return (unsigned)s < ATTN_SOURCE_COUNT ? names[s] : "unknown";
}

static const char *known(attn_known k) {
  return k == ATTN_YES ? "yes" : k == ATTN_NO ? "no" : "unknown";
}

static void line(const char *name, const char *value) { printf("  %-18s %s\n", name, value); }

static void number(const char *name, double x, double unit, const char *format) {
  char text[64];
  if (x > 0)
    snprintf(text, sizeof(text), format, x / unit);
  else
    snprintf(text, sizeof(text), "unknown");
  line(name, text);
}

static void bytes(const char *name, int64_t x) {
  char text[CLI_NUMBER];
  line(name, x > 0 ? cli_bytes((double)x, text) : "unknown");
}

static void print_cpu(const attn_capability *c) {
  char text[256] = "";
  for (int bit = 0; bit < 31; bit++) {
    const char *name = c->isa_flags >> bit & 1 ? attn_isa_flag_name(1 << bit) : NULL;
    size_t at = strlen(text);
    if (name) snprintf(text + at, sizeof(text) - at, "%s%s", at ? " " : "", name);
  }
  cli_wrap("  ISA flags          ", text[0] ? text : "unknown");
  number("cores online", c->cores_total, 1, "%.0f");
  number("NUMA nodes", c->numa_nodes, 1, "%.0f");
  bytes("L1 data", c->l1_bytes);
  bytes("L2", c->l2_bytes);
  bytes("L3", c->l3_bytes);
}

void cli_print_device(const attn_capability *c) {
  char text[128];
  printf("%s: %s%s%s\n", attn_device_type_name(c->device), c->name[0] ? c->name : "unnamed",
         c->arch[0] ? ", " : "", c->arch);
  line("source", source_name(c->source));
  if (c->device == ATTN_DEVICE_CUDA) {
    snprintf(text, sizeof(text), "%d.%d", c->compute_major, c->compute_minor);
    line("compute capability", c->compute_major ? text : "unknown");
    number("cuDNN", c->cudnn_version, 1, "%.0f");
  }
  number(c->device == ATTN_DEVICE_CPU ? "cores usable" : "compute units", c->compute_units, 1,
         "%.0f");
  if (c->device == ATTN_DEVICE_CPU)
    print_cpu(c);
  else
    bytes("L2", c->l2_bytes);
  bytes("memory", c->memory_total);
  bytes("memory available", c->memory_available);
  number("bandwidth", c->bandwidth, 1e9, "%.1f GB/s");
  number("clock", c->clock_hz, 1e9, "%.2f GHz");
  snprintf(text, sizeof(text), "f16 %s, bf16 %s, fp8 %s, matrix units %s", known(c->f16),
           known(c->bf16), known(c->f8), known(c->tensor_cores));
  line("arithmetic", text);
  number("peak f32", c->peak_f32, 1e12, "%.3g TFLOP/s");
  number("peak f16", c->peak_f16, 1e12, "%.4g TFLOP/s");
  number("peak bf16", c->peak_bf16, 1e12, "%.4g TFLOP/s");
  number("peak fp8", c->peak_f8, 1e12, "%.4g TFLOP/s");
  if (c->notes[0]) cli_wrap("  notes              ", c->notes);
}

static json_t *known_json(attn_known k) {
  return k == ATTN_UNKNOWN ? json_null() : json_boolean(k == ATTN_YES);
}
static json_t *positive(double x) { return cli_real_or_null(x, x > 0); }
static json_t *positive_int(int64_t x) { return x > 0 ? json_integer(x) : json_null(); }

json_t *cli_device_json(const attn_capability *c) {
  json_t *o = json_object();
#define PUT(key, value) json_object_set_new(o, key, value)
  PUT("device", json_string(attn_device_type_name(c->device)));
  PUT("source", json_string(source_name(c->source)));
  PUT("name", c->name[0] ? json_string(c->name) : json_null());
  PUT("arch", c->arch[0] ? json_string(c->arch) : json_null());
  char cc[32];
  snprintf(cc, sizeof(cc), "%d.%d", c->compute_major, c->compute_minor);
  PUT("compute_capability", c->compute_major ? json_string(cc) : json_null());
  PUT("compute_units", positive_int(c->compute_units));
  PUT("memory_total_bytes", positive_int(c->memory_total));
  PUT("memory_available_bytes", positive_int(c->memory_available));
  PUT("bandwidth_gbps", positive(c->bandwidth / 1e9));
  PUT("clock_ghz", positive(c->clock_hz / 1e9));
  PUT("tensor_cores", known_json(c->tensor_cores));
  PUT("f16", known_json(c->f16));
  PUT("bf16", known_json(c->bf16));
  PUT("f8", known_json(c->f8));
  PUT("peak_f32_gflops", positive(c->peak_f32 / 1e9));
  PUT("peak_f16_gflops", positive(c->peak_f16 / 1e9));
  PUT("peak_bf16_gflops", positive(c->peak_bf16 / 1e9));
  PUT("peak_f8_gflops", positive(c->peak_f8 / 1e9));
  PUT("shared_memory_bytes", positive_int(c->shared_memory_bytes));
  PUT("l1_bytes", positive_int(c->l1_bytes));
  PUT("l2_bytes", positive_int(c->l2_bytes));
  PUT("l3_bytes", positive_int(c->l3_bytes));
  PUT("cudnn_version", positive_int(c->cudnn_version));
  PUT("unified_memory", known_json(c->unified_memory));
  PUT("cores_total", positive_int(c->cores_total));
  PUT("numa_nodes", positive_int(c->numa_nodes));
  PUT("cache_line_bytes", positive_int(c->cache_line));
  json_t *flags = json_array();
  for (int bit = 0; bit < 31; bit++) {
    const char *name = c->isa_flags >> bit & 1 ? attn_isa_flag_name(1 << bit) : NULL;
    if (name) json_array_append_new(flags, json_string(name));
  }
  PUT("isa_flags", flags);
  PUT("notes", json_string(c->notes));
#undef PUT
  return o;
}

static int print_profiles(const cli_common *c) {
  json_t *list = json_array();
  cli_table t = { 0 };
  cli_row(&t, "name\tdevice\tarch\tunits\tmemory\tGB/s\tTFLOP/s f16\tf32");
  for (int i = 0; i < attn_profile_count(); i++) {
    const attn_capability *p = attn_profile_get(i);
    char memory[CLI_NUMBER], half[32] = "-";
    if (p->peak_f16 > 0) snprintf(half, sizeof(half), "%.4g", p->peak_f16 / 1e12);
    cli_row(&t, "%s\t%s\t%s\t%d\t%s\t%.0f\t%s\t%.3g", p->name, attn_device_type_name(p->device),
            p->arch, p->compute_units, cli_bytes((double)p->memory_total, memory),
            p->bandwidth / 1e9, half, p->peak_f32 / 1e12);
    json_array_append_new(list, cli_device_json(p));
  }
  if (c->json) {
    for (int r = 0; r < t.rows; r++) free(t.cells[r]);
    free(t.cells);
    return cli_print_json(json_pack("{s:o}", "profiles", list));
  }
  json_decref(list);
  cli_table_print(&t);
  return cli_finish(CLI_OK);
}

/* The kernel of the highest level that runs here and that the configuration allows. */
static int kernel_in_use(const attn_context *context, const attn_kernel_info *k, int count) {
  attn_isa most = attn_context_config(context)->isa;
  int best = -1;
  for (int i = 0; i < count; i++) {
    if (k[i].ok) best = i;
    if (k[i].isa == most) return best;
  }
  return most && count ? 0 : best; // another architecture's level leaves scalar
}

static json_t *kernels_json(const attn_kernel_info *k, int count) {
  json_t *list = json_array();
  for (int i = 0; i < count; i++)
    json_array_append_new(list, json_pack("{s:s, s:b, s:s, s:s, s:i}", "isa", k[i].name,
                                          "supported", k[i].supported, "selfcheck",
                                          !k[i].checked ? "not run"
                                          : k[i].ok     ? "ok"
                                                        : "failed",
                                          "reason", k[i].reason, "queries_per_tile",
                                          k[i].queries_per_tile));
  return list;
}

int cmd_info(int argc, char **argv) {
  cli_common c = { 0 };
  bool profiles = false;
  const cli_option options[] = { { "--profiles", CLI_FLAG, &profiles }, { 0 } };
  int status = cli_parse(&c, argc, argv, options);
  if (status) return status;
  if (c.help) return fputs(help, stdout), cli_finish(CLI_OK);
  if (c.shape_count || c.shape[0]) return cli_usage(&c, "takes no problem");
  if (profiles) return print_profiles(&c);

  attn_capability devices[16];
  attn_kernel_info kernels[8];
  char notes[2048] = "";
  int count = 1, levels = attn_kernels(kernels, 8);
  attn_context *context = cli_context(&c); // reads the environment, and faults in it
  if (!context) return CLI_FAILED;
  int used = kernel_in_use(context, kernels, levels);
  attn_context_destroy(context);
  if (c.config.capability)
    devices[0] = c.hardware;
  else
    count = attn_hardware_detect(devices, 16, notes, sizeof(notes));
  if (count > 16) count = 16;
  if (!c.config.capability && attn_hardware_measure(&devices[0]))
    return cli_fail(&c, "%s", attn_last_error());
  if (c.json) {
    json_t *list = json_array();
    for (int i = 0; i < count; i++) json_array_append_new(list, cli_device_json(&devices[i]));
    return cli_print_json(json_pack("{s:s, s:o, s:o, s:s, s:n}", "version", attn_version(),
                                    "devices", list, "kernels", kernels_json(kernels, levels),
                                    "notes", notes, "wisdom"));
  }
  printf("libattn %s\n\n", attn_version());
  for (int i = 0; i < count; i++) cli_print_device(&devices[i]), putchar('\n');
  if (!c.config.capability) {
    printf("CPU kernels\n");
    for (int i = 0; i < levels; i++) {
      char text[160];
      snprintf(text, sizeof(text), "%s%s", kernels[i].ok ? "self-check ok" : kernels[i].reason,
               i == used ? ", in use" : "");
      line(kernels[i].name, text);
    }
    if (notes[0]) printf("\n"), cli_wrap("not found  ", notes);
  }
  return cli_finish(CLI_OK);
}
