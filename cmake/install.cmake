# SPDX-License-Identifier: Apache-2.0
include(CMakePackageConfigHelpers)

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/convt)
install(TARGETS convt EXPORT convt FILE_SET HEADERS)
if(CONVT_CLI)
  install(TARGETS convt_cli)
endif()
install(EXPORT convt NAMESPACE convt:: FILE convtTargets.cmake DESTINATION ${package_dir})
configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/convtConfig.cmake.in
                              ${PROJECT_BINARY_DIR}/generated/convtConfig.cmake INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/generated/convtConfigVersion.cmake
                                 COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/generated/convtConfig.cmake
              ${PROJECT_BINARY_DIR}/generated/convtConfigVersion.cmake DESTINATION ${package_dir})

# The prefix is relative to where the .pc file is found, so that the installed tree can be moved.
cmake_path(RELATIVE_PATH CMAKE_INSTALL_PREFIX BASE_DIRECTORY ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig
           OUTPUT_VARIABLE pc_prefix)
set(pc_libs "")
if(CONVT_LIBRARY_TYPE STREQUAL "STATIC")  # a C program does not link the C++ runtime of its own
  set(pc_libs " -lstdc++ -lm -lpthread -ldl")
endif()
configure_file(${CMAKE_CURRENT_LIST_DIR}/convt.pc.in ${PROJECT_BINARY_DIR}/generated/convt.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/generated/convt.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

install(FILES ${PROJECT_SOURCE_DIR}/LICENSE ${PROJECT_SOURCE_DIR}/docs/text.md ${PROJECT_SOURCE_DIR}/docs/numerics.md
        DESTINATION ${CMAKE_INSTALL_DOCDIR})

# `cpack -G DEB` in the build folder makes a package of it.
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_CONTACT "the convt project")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION libs)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_STRIP_FILES ON)
if(PROJECT_IS_TOP_LEVEL)
  include(CPack)
endif()
