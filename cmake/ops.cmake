# SPDX-License-Identifier: Apache-2.0
# Writes convt_ops_includes.hpp into CONVT_GENERATED_DIR: shared.hpp, then one include per line
# CONVT_OP(name, Type) of ops.def.
set(CONVT_GENERATED_DIR ${PROJECT_BINARY_DIR}/generated)
set(ops_def ${PROJECT_SOURCE_DIR}/src/epilogue/ops.def)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${ops_def})

file(STRINGS ${ops_def} lines REGEX "^CONVT_OP\\([a-z0-9_]+,")
list(TRANSFORM lines REPLACE "^CONVT_OP\\(([a-z0-9_]+),.*" "#include \"epilogue/ops/\\1.hpp\"\n")
list(JOIN lines "" includes)
# Leaves an unchanged file alone, so that nothing is recompiled.
file(CONFIGURE OUTPUT ${CONVT_GENERATED_DIR}/convt_ops_includes.hpp @ONLY
     CONTENT "// Generated from src/epilogue/ops.def.\n#include \"epilogue/shared.hpp\"\n@includes@")
