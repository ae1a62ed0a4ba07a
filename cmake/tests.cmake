# SPDX-License-Identifier: Apache-2.0
# tests/unit and tests/kernel: one cmocka program a file, linked with the library's internals.
find_package(PkgConfig REQUIRED)
pkg_check_modules(CMOCKA REQUIRED IMPORTED_TARGET cmocka)

file(GLOB UNIT_TESTS CONFIGURE_DEPENDS
  ${CMAKE_SOURCE_DIR}/tests/unit/test_*.c ${CMAKE_SOURCE_DIR}/tests/kernel/test_*.c)
foreach(file ${UNIT_TESTS})
  get_filename_component(name ${file} NAME_WE)
  add_executable(${name} ${file})
  target_include_directories(${name} PRIVATE ${CMAKE_SOURCE_DIR}/tests)
  target_link_libraries(${name} PRIVATE attn_internal PkgConfig::CMOCKA)
  add_test(NAME ${name} COMMAND ${name})
endforeach()
include(${CMAKE_SOURCE_DIR}/tests/unit/fake/fake.cmake)

# The AMX kernels on a software model of the tile instructions, for CPUs that have the rest.
if(ATTN_KERNELS STREQUAL "x86")
  add_library(amx_model OBJECT ${CMAKE_SOURCE_DIR}/src/kernel/x86/pairs_amx.c)
  target_include_directories(amx_model PRIVATE ${CMAKE_SOURCE_DIR}/include ${CMAKE_SOURCE_DIR}/src
    ${CMAKE_SOURCE_DIR}/tests)
  target_compile_definitions(amx_model PRIVATE AMX_MODEL="kernel/amx_model.h")
  target_link_libraries(test_pairs PRIVATE $<TARGET_OBJECTS:amx_model>)
  target_compile_definitions(test_pairs PRIVATE HAVE_AMX_MODEL)
endif()

if(ATTN_BUILD_CLI)
  file(GLOB CLI_TESTS CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/cli/test_*.c)
  if(CMAKE_CROSSCOMPILING) # an emulator does not follow a test that starts the command
    list(FILTER CLI_TESTS EXCLUDE REGEX "/test_(cli|cli_.*|conformance_run)\\.c$")
  endif()
  foreach(file ${CLI_TESTS})
    get_filename_component(name ${file} NAME_WE)
    add_executable(${name} ${file})
    target_link_libraries(${name} PRIVATE attn_cli PkgConfig::CMOCKA)
    target_compile_definitions(${name} PRIVATE ATTN_COMMAND="$<TARGET_FILE:attn_command>"
      CONFORMANCE_CASES="${CMAKE_SOURCE_DIR}/tests/conformance/cases")
    add_dependencies(${name} attn_command)
    add_test(NAME ${name} COMMAND ${name})
  endforeach()
endif()

add_test(NAME include_rules COMMAND ${CMAKE_SOURCE_DIR}/tools/check_includes.sh)
if(NOT ATTN_SANITIZE AND NOT CMAKE_CROSSCOMPILING)
  add_test(NAME install_and_example
    COMMAND ${CMAKE_SOURCE_DIR}/tests/install/test_install.sh ${CMAKE_SOURCE_DIR} ${CMAKE_BINARY_DIR})
endif()

# Random problems: fewer under sanitizers and emulators, which are slow.
if(ATTN_BUILD_CLI AND TARGET attn-property)
  set(SWEEP 500)
  set(PROPERTIES 2000)
  set(FALSIFIED 120)
  if(ATTN_SANITIZE OR CMAKE_CROSSCOMPILING)
    set(PROPERTIES 250)
    set(FALSIFIED 40)
  endif()
  add_test(NAME verify_sweep COMMAND attn_command verify --count ${SWEEP} --seed 1)
  add_test(NAME property COMMAND attn-property --count ${PROPERTIES} --seed 1)
  add_test(NAME property_self_test COMMAND attn-property --count ${FALSIFIED} --seed 3 --self-test)
  if(NOT CMAKE_CROSSCOMPILING)
    add_test(NAME property_command
      COMMAND ${CMAKE_SOURCE_DIR}/tests/property/test_property.sh $<TARGET_FILE:attn-property>)
  endif()
  add_test(NAME property_threads COMMAND attn-property --count 40 --seed 4)
  set_tests_properties(property_threads PROPERTIES LABELS threads)
endif()
foreach(name test_threads test_execute test_select test_select_cache test_wisdom_context)
  if(TEST ${name})
    set_tests_properties(${name} PROPERTIES LABELS threads)
  endif()
endforeach()

if(ATTN_BUILD_CLI AND TARGET attn-conformance)
  set(CONFORMANCE ${CMAKE_SOURCE_DIR}/tests/conformance)
  add_test(NAME attn_conformance COMMAND attn-conformance ${CONFORMANCE}/cases)
  add_test(NAME attn_conformance_all COMMAND attn-conformance ${CONFORMANCE}/cases --backend all)
  if(NOT CMAKE_CROSSCOMPILING)
    add_test(NAME attn_conformance_damaged
      COMMAND ${CONFORMANCE}/test_damaged.sh $<TARGET_FILE:attn-conformance> ${CONFORMANCE}/cases)
  endif()
endif()

# No test depends on the wisdom of whoever runs it.
get_property(ALL_TESTS DIRECTORY PROPERTY TESTS)
set_property(TEST ${ALL_TESTS} APPEND PROPERTY ENVIRONMENT ATTN_WISDOM= XDG_DATA_HOME=/nonexistent)
