#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A room may include only rooms below it, and programs only the public headers. Prints offenders.
set -u
cd "$(dirname "$0")/.."
bad=0
allow() { # ROOM "ROOMS IT MAY INCLUDE"
  for file in $(find "src/$1" -name '*.[ch]'); do
    for room in $(sed -n 's|^#include "\([a-z_0-9]*\)/.*|\1|p' "$file" | sort -u); do
      case " $2 attn $1 " in
        *" $room "*) ;;
        *) echo "$file: a file of $1 may not include $room/"; bad=1 ;;
      esac
    done
  done
}
allow core ""
allow reference "core"
allow kernel "core"
allow hardware "core"
allow engine "core kernel backend"
allow backend "core kernel engine"
allow select "core kernel backend"
allow wisdom "core hardware select"
allow api "core kernel backend hardware select wisdom"
for file in $(find cli examples -name '*.[ch]'); do
  for room in $(sed -n 's|^#include "\([a-z_0-9]*\)/.*|\1|p' "$file" | sort -u); do
    case $room in
      attn) ;;
      *) echo "$file: programs see include/attn/ alone, not $room/"; bad=1 ;;
    esac
  done
done
# the engine knows backends only by the vtable's header
if grep -rn '#include "backend/' src/engine | grep -v 'backend/backend.h"'; then bad=1; fi
exit $bad
