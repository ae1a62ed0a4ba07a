#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# attn-property's command line: what it prints repeats, and wrong words are named.
# Usage: test_property.sh PROGRAM
set -eu
program=$1
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
trap 'exit 1' HUP INT TERM

die() {
  echo "$1" >&2
  cat "$folder/log" >&2
  exit 1
}

# expect STATUS LAST_LINE [ARGUMENT...]
expect() {
  status=$1 last=$2
  shift 2
  rc=0
  "$program" "$@" >"$folder/log" 2>&1 || rc=$?
  [ "$rc" -eq "$status" ] || die "$*: exit status $rc, not $status"
  [ -z "$last" ] || [ "$(tail -n 1 "$folder/log")" = "$last" ] || die "$*: the last line is not '$last'"
}

expect 0 '4 passed, 0 failed, 0 skipped' --seed 5 --count 4 --max-seq 20
grep -q '^seed 5$' "$folder/log" || die "the seed is not printed"
expect 0 '1 passed, 0 failed, 0 skipped' --seed 5 --index 3 --max-seq 20 --isa scalar
expect 0 '2 passed, 0 failed, 0 skipped' --index 3 --count 2 --max-seq 20 --features basic
expect 0 '1 passed, 0 failed, 0 skipped' --data-seed 77 --heads 4:2 --seq 3:9 --dim 5 --causal br
expect 1 '0 passed, 0 failed, 1 skipped' --data-seed 77 --seq 3 --dim 5 --backend varlen --stats
grep -q 'not_varlen 1' "$folder/log" || die "the reason is not named"
expect 2 '' --seq 3 --dim 5
grep -q 'data-seed' "$folder/log" || die "--data-seed is not named"
expect 2 '' --data-seed 1
expect 2 '' --data-seed 1 --seq x --dim 5
expect 2 '' --count 0
expect 2 '' --index -3
expect 2 '' --features some
expect 2 '' --nonsense
expect 0 '' --help
