# SPDX-License-Identifier: Apache-2.0
# What the Python package has beside its sources: libconvt.so, hints for the functions that are made from its tables,
# and libconvt_torch.so. pyproject.toml builds the target convt_python and installs the component python.
find_package(Python3 3.10 COMPONENTS Interpreter REQUIRED)

set(CONVT_TORCH AUTO CACHE STRING "Build the operators for PyTorch: ON, OFF, or AUTO: where torch 2.10 or later is found")
set(CONVT_TORCH_PYTHON ${Python3_EXECUTABLE} CACHE STRING "The Python whose torch the operators are built with")
set(torch_sources ${PROJECT_SOURCE_DIR}/python/torch_ext)
set(with_torch ${CONVT_TORCH})
if(CONVT_TORCH STREQUAL "AUTO")
  # Not imported: that takes seconds.
  execute_process(
    COMMAND ${CONVT_TORCH_PYTHON} -c "import os, importlib.util as u; print(os.path.dirname(u.find_spec('torch').origin), end='')"
    OUTPUT_VARIABLE torch_root ERROR_QUIET RESULT_VARIABLE missing)
  set(with_torch OFF)
  if(NOT missing AND EXISTS ${torch_root}/include/torch/csrc/stable/library.h)
    set(with_torch ON)
    set(CONVT_TORCH_ROOT ${torch_root})
  endif()
endif()
if(with_torch AND EXISTS ${torch_sources}/CMakeLists.txt)
  message(STATUS "Operators for PyTorch: built with the torch of ${CONVT_TORCH_PYTHON}")
  add_subdirectory(${torch_sources} ${PROJECT_BINARY_DIR}/torch_ext)
else()
  message(STATUS "Operators for PyTorch: not built (CONVT_TORCH=${CONVT_TORCH}, Python ${CONVT_TORCH_PYTHON})")
endif()

set(stubs_dir ${PROJECT_BINARY_DIR}/generated/python)
set(stubs ${stubs_dir}/ops.pyi ${stubs_dir}/problems.pyi)
file(GLOB package_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/python/convt/*.py)
add_custom_command(
  OUTPUT ${stubs}
  COMMAND ${CMAKE_COMMAND} -E env CONVT_LIBRARY=$<TARGET_FILE:convt> ${Python3_EXECUTABLE}
          ${PROJECT_SOURCE_DIR}/python/stubs.py ${stubs_dir}
  DEPENDS convt ${package_sources} ${PROJECT_SOURCE_DIR}/python/stubs.py
  VERBATIM)
add_custom_target(convt_python DEPENDS convt ${stubs})
if(TARGET convt_torch)
  add_dependencies(convt_python convt_torch)
endif()

install(FILES $<TARGET_FILE:convt> DESTINATION convt RENAME libconvt.so COMPONENT python EXCLUDE_FROM_ALL)
install(FILES ${stubs} DESTINATION convt COMPONENT python EXCLUDE_FROM_ALL)
