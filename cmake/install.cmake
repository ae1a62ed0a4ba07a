# SPDX-License-Identifier: Apache-2.0
install(DIRECTORY ${CMAKE_SOURCE_DIR}/include/attn DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
