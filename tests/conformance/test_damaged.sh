#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# attn-conformance must fail what is wrong and go on. Usage: test_damaged.sh PROGRAM CASES
set -eu
program=$1
source=$2/test_attention_4d_with_past_and_present
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
trap 'exit 1' HUP INT TERM

die() {
  echo "$1" >&2
  exit 1
}

# Writes bytes (as printf's octal escapes) over the end of a file, where the last element lies.
damage() {
  bytes=$(wc -c <"$1")
  printf "$3" | dd of="$1" bs=1 seek=$((bytes - $2)) conv=notrunc 2>/dev/null
}

# expect STATUS LAST_LINE [ARGUMENT...]
expect() {
  status=$1 last=$2
  shift 2
  rc=0
  "$program" "$@" >"$folder/log" 2>&1 || rc=$?
  [ "$rc" -eq "$status" ] || die "$*: exit status $rc, not $status: $(cat "$folder/log")"
  [ -z "$last" ] || [ "$(tail -n 1 "$folder/log")" = "$last" ] ||
    die "$*: ends with '$(tail -n 1 "$folder/log")', not '$last'"
}

fresh() {
  rm -rf "$folder/cases"
  mkdir "$folder/cases"
  for name; do cp -R "$source" "$folder/cases/$name"; done
}

fresh whole
expect 0 '1 passed, 0 failed, 0 skipped' "$folder/cases"

fresh wrong nan present missing shape truncated json unknown whole
cd "$folder/cases"
damage wrong/Y.npy 4 '\000\000\200\077'
damage nan/Y.npy 4 '\000\000\300\177'
damage present/present_value.npy 4 '\000\000\200\077'
rm missing/K.npy
cp shape/past_key.npy shape/K.npy
head -c 100 truncated/Q.npy >truncated/cut
mv truncated/cut truncated/Q.npy
echo '{' >json/case.json
sed 's/"attributes": {/"attributes": { "left_window": 3/' unknown/case.json >unknown/changed
mv unknown/changed unknown/case.json
cd - >/dev/null
expect 1 '1 passed, 8 failed, 0 skipped' "$folder/cases"
for name in wrong nan present missing shape truncated json unknown; do
  grep -q "^FAIL $name " "$folder/log" || die "$name does not fail"
done
grep -q '^FAIL wrong .* Y\[191\] is .*, expected 1$' "$folder/log" || die "no element is named"

# A backend that cannot run a case skips it and says why.
fresh whole
expect 0 '0 passed, 0 failed, 1 skipped' "$folder/cases" --backend varlen
grep -q '^skip whole .*not_varlen' "$folder/log" || die "no reason is named"

fresh
expect 1 '0 passed, 0 failed, 0 skipped' "$folder/cases"
expect 1 '' "$folder/absent"
expect 2 ''
expect 2 '' "$folder/cases" --backend nonsense
expect 2 '' "$folder/cases" --nonsense
expect 0 '' --help
