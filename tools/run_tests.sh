#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Builds and runs the test suites named (release, asan, tsan, arm) and ends with one line of totals.
set -u
build=${BUILD:-build} jobs=${JOBS:-2}
passed=0 failed=0

# configure and build NAME with the given CMake options, in $build/NAME
build_suite() {
  name=$1; shift
  log=$build/$name.log
  cmake -S . -B "$build/$name" -G Ninja -DATTN_BUILD_BENCH=OFF "$@" >"$log" 2>&1 &&
    cmake --build "$build/$name" -j "$jobs" >>"$log" 2>&1 || { cat "$log"; return 1; }
}

run_suite() { # NAME FOLDER, and what else ctest is to know
  name=$1 folder=$2; shift 2
  echo "== $name"
  ctest --test-dir "$folder" --output-on-failure -j "$jobs" "$@" | tee "$build/$name.ctest" |
    grep -vE '^(Internal ctest|Test project)'
  total=$(sed -n 's/.*tests failed out of \([0-9]*\)$/\1/p' "$build/$name.ctest")
  bad=$(sed -n 's/.*tests passed, \([0-9]*\) tests failed.*/\1/p' "$build/$name.ctest")
  if [ -z "$total" ] || [ "$total" -eq 0 ]; then
    echo "$name: no test ran"; failed=$((failed + 1))
  else
    passed=$((passed + total - bad)) failed=$((failed + bad))
  fi
}

for suite in "$@"; do
  case $suite in
    release) run_suite release "$build" ;;
    asan)
      if build_suite asan -DCMAKE_BUILD_TYPE=RelWithDebInfo -DATTN_SANITIZE=address,undefined; then
        ASAN_OPTIONS=detect_leaks=1 UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1 \
          run_suite asan "$build/asan" -LE slow
      else failed=$((failed + 1)); fi ;;
    tsan)
      if build_suite tsan -DCMAKE_BUILD_TYPE=RelWithDebInfo -DATTN_SANITIZE=thread \
       ; then
        TSAN_OPTIONS=halt_on_error=1 run_suite tsan "$build/tsan" -L threads
      else failed=$((failed + 1)); fi ;;
    arm)
      if build_suite arm -DCMAKE_BUILD_TYPE=Release -DATTN_HWLOC=OFF \
          -DCMAKE_TOOLCHAIN_FILE="$PWD/cmake/aarch64.cmake" -DATTN_SYSROOT="$PWD/$build/arm-sysroot"; then
        QEMU_CPU=max run_suite arm "$build/arm"
        QEMU_CPU=cortex-a72 run_suite arm-base "$build/arm" -R 'test_kernels|verify_sweep'
      else failed=$((failed + 1)); fi ;;
    *) echo "run_tests: no suite \"$suite\"" >&2; exit 2 ;;
  esac
done
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
