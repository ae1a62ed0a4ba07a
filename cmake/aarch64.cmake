# SPDX-License-Identifier: Apache-2.0
# Toolchain: Linux on AArch64 from another architecture, run by qemu. ATTN_SYSROOT holds the libraries
# that tools/setup_arm.sh unpacked; QEMU_CPU in the environment chooses the CPU.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
# -R: without a limit every allocation succeeds, and tests ask for more than there is.
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64 -L /usr/aarch64-linux-gnu -R 0x100000000)

list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES ATTN_SYSROOT)
set(CMAKE_FIND_ROOT_PATH ${ATTN_SYSROOT})
set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(ENV{PKG_CONFIG_SYSROOT_DIR} ${ATTN_SYSROOT})
set(ENV{PKG_CONFIG_LIBDIR} ${ATTN_SYSROOT}/usr/lib/aarch64-linux-gnu/pkgconfig)
