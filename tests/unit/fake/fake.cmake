# SPDX-License-Identifier: Apache-2.0
# Stand-ins for drivers, opened by test_hardware_gpu; see driver.c.
foreach(variant "" _poor _broken _empty _strange)
  string(TOUPPER "FAKE${variant}" define)
  add_library(fake_driver${variant} MODULE ${CMAKE_CURRENT_LIST_DIR}/driver.c)
  target_compile_definitions(fake_driver${variant} PRIVATE ${define})
  set_target_properties(fake_driver${variant} PROPERTIES PREFIX "" SUFFIX ".so"
    LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/fake)
  add_dependencies(test_hardware_gpu fake_driver${variant})
endforeach()
target_compile_definitions(test_hardware_gpu PRIVATE FAKE_DRIVERS="${CMAKE_BINARY_DIR}/fake")
