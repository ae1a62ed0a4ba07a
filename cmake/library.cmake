# SPDX-License-Identifier: Apache-2.0
# The library. Sources are found by folder so that a new backend is its folder and a registry line.
file(GLOB_RECURSE ATTN_SOURCES CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/*.c)
list(FILTER ATTN_SOURCES EXCLUDE REGEX "/src/device/(opencl|cuda|metal)/")

# A folder of kernels an architecture.
set(ATTN_KERNELS "")
if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64|amd64)$")
  set(ATTN_KERNELS x86)
elseif(CMAKE_SYSTEM_PROCESSOR MATCHES "^(aarch64|arm64|ARM64)$")
  set(ATTN_KERNELS arm)
endif()
foreach(arch x86 arm)
  if(NOT arch STREQUAL ATTN_KERNELS)
    list(FILTER ATTN_SOURCES EXCLUDE REGEX "/src/kernel/${arch}/")
  endif()
endforeach()

include(${CMAKE_CURRENT_LIST_DIR}/profiles.cmake)

# One object library so that tests can reach hidden symbols without a second compilation.
add_library(attn_objects OBJECT ${ATTN_SOURCES})
target_include_directories(attn_objects
  PUBLIC ${CMAKE_SOURCE_DIR}/include
  PRIVATE ${CMAKE_SOURCE_DIR}/src ${CMAKE_BINARY_DIR}/generated)
target_compile_definitions(attn_objects PRIVATE _GNU_SOURCE ATTN_VERSION_STRING="${PROJECT_VERSION}"
  ATTN_SYSTEM_WISDOM="${CMAKE_INSTALL_FULL_SYSCONFDIR}/attn/wisdom")

# Kernels of one ISA are compiled for that ISA alone; dispatch decides at run time.
function(attn_isa_flags suffix)
  file(GLOB files ${CMAKE_SOURCE_DIR}/src/kernel/*/*_${suffix}.c)
  set_source_files_properties(${files} PROPERTIES COMPILE_OPTIONS "${ARGN}")
endfunction()
if(ATTN_KERNELS STREQUAL "x86")
  attn_isa_flags(avx2 -mavx2 -mfma -mf16c)
  set(avx512 -mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx2 -mfma -mf16c -mprefer-vector-width=512)
  attn_isa_flags(avx512 ${avx512})
  attn_isa_flags(avx512_bf16 ${avx512} -mavx512bf16)
  attn_isa_flags(amx ${avx512} -mavx512bf16 -mamx-tile -mamx-bf16)
elseif(ATTN_KERNELS STREQUAL "arm" AND CMAKE_C_COMPILER_ID STREQUAL "GNU")
  # Scheduled before registers are assigned, the score loop copies 8 accumulators a round for want of one.
  attn_isa_flags(neon -fno-schedule-insns)
endif()

# They time instructions, not the build type.
set_source_files_properties(${CMAKE_SOURCE_DIR}/src/hardware/measure_loops.c
  ${CMAKE_SOURCE_DIR}/src/hardware/measure_loops_x86.c PROPERTIES COMPILE_OPTIONS -O2)

set(THREADS_PREFER_PTHREAD_FLAG ON)
find_package(Threads REQUIRED)
set(ATTN_LIBS Threads::Threads m ${CMAKE_DL_LIBS})
set(ATTN_PC_REQUIRES "")
if(ATTN_HWLOC)
  find_package(PkgConfig)
  if(PKG_CONFIG_FOUND)
    pkg_check_modules(HWLOC IMPORTED_TARGET hwloc)
  endif()
  if(HWLOC_FOUND)
    target_compile_definitions(attn_objects PRIVATE ATTN_HAVE_HWLOC=1)
    target_link_libraries(attn_objects PRIVATE PkgConfig::HWLOC)
    list(APPEND ATTN_LIBS PkgConfig::HWLOC)
    set(ATTN_PC_REQUIRES "hwloc")
  endif()
endif()

add_library(attn $<TARGET_OBJECTS:attn_objects>)
target_include_directories(attn PUBLIC
  $<BUILD_INTERFACE:${CMAKE_SOURCE_DIR}/include> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
target_link_libraries(attn PRIVATE ${ATTN_LIBS})
set_target_properties(attn PROPERTIES VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR})

# Static twin for tests of internals; not installed.
add_library(attn_internal STATIC $<TARGET_OBJECTS:attn_objects>)
target_include_directories(attn_internal PUBLIC ${CMAKE_SOURCE_DIR}/include ${CMAKE_SOURCE_DIR}/src
  ${CMAKE_BINARY_DIR}/generated)
target_compile_definitions(attn_internal PUBLIC _GNU_SOURCE)
target_link_libraries(attn_internal PUBLIC ${ATTN_LIBS})
