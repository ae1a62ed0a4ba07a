#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Installs what building and testing need, or the packages named, where missing. Debian and its
# relatives; elsewhere it only says what to install.
set -eu
packages=${*:-gcc libc6-dev make cmake ninja-build pkg-config libhwloc-dev libjansson-dev zlib1g-dev libcmocka-dev}

missing=
if command -v dpkg-query >/dev/null 2>&1; then
  for package in $packages; do
    state=$(dpkg-query -W -f '${Status}' "$package" 2>/dev/null || true)
    case $state in *" installed") ;; *) missing="$missing $package" ;; esac
  done
  [ -n "$missing" ] || exit 0
else
  for tool in cc cmake ninja pkg-config; do
    command -v "$tool" >/dev/null 2>&1 || missing="$missing $tool"
  done
  if command -v pkg-config >/dev/null 2>&1; then
    for module in jansson zlib cmocka; do
      pkg-config --exists "$module" || missing="$missing $module"
    done
  fi
  [ -n "$missing" ] || exit 0
fi

if ! command -v apt-get >/dev/null 2>&1; then
  echo "setup: install with your package manager:$missing" >&2
  exit 1
fi
sudo=
if [ "$(id -u)" -ne 0 ]; then
  command -v sudo >/dev/null 2>&1 || { echo "setup: as root, run: apt-get install$missing" >&2; exit 1; }
  sudo=sudo
fi
echo "setup: installing$missing"
export DEBIAN_FRONTEND=noninteractive
$sudo apt-get update -qq
# shellcheck disable=SC2086
$sudo apt-get install -y -qq --no-install-recommends $missing >/dev/null
