# SPDX-License-Identifier: Apache-2.0
# The attn command and the programs beside it; they see include/attn/ alone.
find_package(PkgConfig REQUIRED)
pkg_check_modules(JANSSON REQUIRED IMPORTED_TARGET jansson)
find_package(ZLIB REQUIRED)

file(GLOB CLI_SOURCES CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/cli/*.c)
list(FILTER CLI_SOURCES EXCLUDE REGEX "/(main|conformance_main|property_main)\\.c$")
add_library(attn_cli STATIC ${CLI_SOURCES})
target_include_directories(attn_cli PUBLIC ${CMAKE_SOURCE_DIR}/cli)
target_compile_definitions(attn_cli PUBLIC _GNU_SOURCE)
target_link_libraries(attn_cli PUBLIC attn PkgConfig::JANSSON ZLIB::ZLIB Threads::Threads m)

add_executable(attn_command ${CMAKE_SOURCE_DIR}/cli/main.c)
set_target_properties(attn_command PROPERTIES OUTPUT_NAME attn)
target_link_libraries(attn_command PRIVATE attn_cli)
foreach(program conformance property)
  if(EXISTS ${CMAKE_SOURCE_DIR}/cli/${program}_main.c)
    add_executable(attn-${program} ${CMAKE_SOURCE_DIR}/cli/${program}_main.c)
    target_link_libraries(attn-${program} PRIVATE attn_cli)
  endif()
endforeach()
