#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# setup_arm.sh SYSROOT: installs what is missing of a compiler for AArch64 and qemu, and unpacks the
# libraries that programs and tests link into SYSROOT; the system gets no second architecture. Debian.
set -eu
sysroot=$1
libraries="libcmocka-dev libcmocka0 libjansson-dev libjansson4 zlib1g-dev"

"$(dirname "$0")/setup.sh" gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user
[ ! -e "$sysroot/complete" ] || exit 0
if ! command -v apt-get >/dev/null 2>&1; then
  echo "setup_arm: needs apt-get to fetch for arm64: $libraries" >&2
  exit 1
fi

echo "setup_arm: fetching for arm64 $libraries"
rm -rf "$sysroot"
mkdir -p "$sysroot/apt/lists/partial" "$sysroot/apt/cache/archives/partial"
cd "$sysroot/apt"
for_arm64() {
  apt-get -qq -o APT::Architectures=arm64 -o APT::Sandbox::User= -o Dir::State::Lists="$PWD/lists" \
    -o Dir::Cache="$PWD/cache" "$@"
}
for_arm64 update
# shellcheck disable=SC2046
for_arm64 download $(printf '%s:arm64 ' $libraries)
for package in *.deb; do dpkg-deb -x "$package" ..; done
rm -rf "../apt"
touch ../complete
