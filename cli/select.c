// SPDX-License-Identifier: Apache-2.0
#include <string.h>

#include "cli.h"

static const char help[] =
    "usage: attn select SHAPE [--hw NAME|FILE] [OPTIONS]\n\n"
    "Which backend runs a problem best, how fast, in how much memory, and why not the others.\n\n"
    "SHAPE  --seq Q[:KV] --dim D[:DV] [--heads Q[:KV]] [--batch B]\n"
    "       [--dtype f32|f16|bf16|f8e4m3|...] [--mask bool|f32|f16|bf16]\n"
    "       [--causal [tl|br|OFFSET]] [--window LEFT:RIGHT] [--softcap X]\n"
    "       [--dropout P] [--scale X] [--kv-dtype T] [--alibi] [--sinks] [--varlen Q:KV] ...\n"
    "       or one text: \"b1 hq32 hkv8 sq1 skv8192 d128\"\n\n"
    "  --hw NAME|FILE         for this device, not this machine ('attn info --profiles')\n"
    "  --backend NAME         take this backend if it can run; --strict: fail if it cannot\n"
    "  --disable NAME         leave a backend out (repeatable)\n"
    "  --objective latency|throughput|balanced\n"
    "  --memory-budget BYTES  most workspace, with K, M, G, KiB, MiB, GiB\n"
    "  --flash-min-seq N      flash backends only from this seq_kv on\n"
    "  --deterministic  --debug (always math)  --threads N  --isa NAME  --json\n\n"
    "  attn select --heads 32:8 --seq 1:8192 --dim 128 --dtype bf16 --causal br\n"
    "  attn select --heads 32 --seq 4096 --dim 128 --dtype f16 --causal br --hw h100-sxm\n";

int cmd_select(int argc, char **argv) {
  cli_common c = { 0 };
  int status = cli_parse(&c, argc, argv, NULL);
  if (status) return status;
  if (c.help) return fputs(help, stdout), cli_finish(CLI_OK);
  if ((status = cli_single(&c))) return status;
  char shape[8192];
  snprintf(shape, sizeof(shape), "%s", c.shape);
  for (int i = 0; i < c.shape_count; i++) {
    size_t at = strlen(shape);
    if (snprintf(shape + at, sizeof(shape) - at, " %s", c.shapes[i]) >= (int)(sizeof(shape) - at))
      return cli_usage(&c, "SHAPE is longer than %zu characters", sizeof(shape) - 1);
  }
  attn_problem problem;
  if ((status = cli_problem(&c, shape, &problem))) return status;
  attn_context *context = cli_context(&c);
  if (!context) return CLI_FAILED;
  static attn_recommendation r;
  char why[1024] = "", text[1024];
  if (attn_select(context, &problem, &r)) snprintf(why, sizeof(why), "%s", attn_last_error());
  attn_problem_format(&problem, text, sizeof(text));
  if (c.json) {
    json_t *o = cli_recommendation_json(&r);
    json_object_set_new(o, "shape", json_string(text));
    json_object_set_new(o, "hardware", json_string(attn_context_capability(context)->name));
    if (why[0]) {
      json_object_set_new(o, "backend", json_null());
      json_object_set_new(o, "implementation", json_null());
      json_object_set_new(o, "error", json_string(why));
    }
    status = cli_print_json(o);
  } else {
    printf("on %s\n", attn_context_capability(context)->name);
    cli_wrap("problem ", text);
    putchar('\n');
    cli_print_recommendation(&r);
    status = cli_finish(CLI_OK);
  }
  if (why[0]) fprintf(stderr, "attn select: %s\n", why);
  attn_context_destroy(context);
  return why[0] ? CLI_FAILED : status;
}
