# SPDX-License-Identifier: Apache-2.0
# Headers, library, command, pkg-config file and CMake package.
include(CMakePackageConfigHelpers)

install(TARGETS attn EXPORT attn-targets
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
  RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(DIRECTORY ${CMAKE_SOURCE_DIR}/include/attn DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
if(ATTN_BUILD_CLI)
  file(RELATIVE_PATH ATTN_LIB_FROM_BIN /${CMAKE_INSTALL_BINDIR} /${CMAKE_INSTALL_LIBDIR})
  set_target_properties(attn_command PROPERTIES INSTALL_RPATH "\$ORIGIN/${ATTN_LIB_FROM_BIN}")
  install(TARGETS attn_command RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()

# A static libattn hands its dependencies on to whoever links it.
if(BUILD_SHARED_LIBS)
  set(ATTN_PC_PRIVATE .private)
  set(ATTN_PC_LIBS "")
else()
  set(ATTN_PC_PRIVATE "")
  set(ATTN_PC_LIBS "-lm -lpthread -ldl")
endif()
file(RELATIVE_PATH ATTN_PC_UP /${CMAKE_INSTALL_LIBDIR}/pkgconfig /) # the copy may be installed anywhere
configure_file(${CMAKE_SOURCE_DIR}/cmake/attn.pc.in ${CMAKE_BINARY_DIR}/attn.pc @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/attn.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

configure_package_config_file(${CMAKE_SOURCE_DIR}/cmake/attn-config.cmake.in
  ${CMAKE_BINARY_DIR}/attn-config.cmake INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/attn)
write_basic_package_version_file(${CMAKE_BINARY_DIR}/attn-config-version.cmake
  COMPATIBILITY SameMinorVersion)
install(EXPORT attn-targets NAMESPACE attn:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/attn)
install(FILES ${CMAKE_BINARY_DIR}/attn-config.cmake ${CMAKE_BINARY_DIR}/attn-config-version.cmake
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/attn)
