# SPDX-License-Identifier: Apache-2.0
include(CMakePackageConfigHelpers)

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/convt)
install(TARGETS convt EXPORT convt FILE_SET HEADERS)
if(CONVT_CLI)
  install(TARGETS convt_cli)
endif()
install(EXPORT convt NAMESPACE convt:: FILE convtConfig.cmake DESTINATION ${package_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/generated/convtConfigVersion.cmake
                                 COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/generated/convtConfigVersion.cmake DESTINATION ${package_dir})

# The prefix is relative to where the .pc file is found, so that the installed tree can be moved.
cmake_path(RELATIVE_PATH CMAKE_INSTALL_PREFIX BASE_DIRECTORY ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig
           OUTPUT_VARIABLE pc_prefix)
configure_file(${CMAKE_CURRENT_LIST_DIR}/convt.pc.in ${PROJECT_BINARY_DIR}/generated/convt.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/generated/convt.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

install(FILES ${PROJECT_SOURCE_DIR}/LICENSE ${PROJECT_SOURCE_DIR}/docs/text.md ${PROJECT_SOURCE_DIR}/docs/numerics.md
        DESTINATION ${CMAKE_INSTALL_DOCDIR})
