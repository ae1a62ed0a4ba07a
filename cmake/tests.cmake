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

if(ATTN_BUILD_CLI)
  file(GLOB CLI_TESTS CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/cli/test_*.c)
  foreach(file ${CLI_TESTS})
    get_filename_component(name ${file} NAME_WE)
    add_executable(${name} ${file})
    target_link_libraries(${name} PRIVATE attn_cli PkgConfig::CMOCKA)
    add_test(NAME ${name} COMMAND ${name})
  endforeach()
endif()

add_test(NAME include_rules COMMAND ${CMAKE_SOURCE_DIR}/tools/check_includes.sh)
if(NOT ATTN_SANITIZE)
  add_test(NAME install_and_example
    COMMAND ${CMAKE_SOURCE_DIR}/tests/install/test_install.sh ${CMAKE_SOURCE_DIR} ${CMAKE_BINARY_DIR})
endif()
