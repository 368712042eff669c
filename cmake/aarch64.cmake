# SPDX-License-Identifier: Apache-2.0
# Toolchain: 64-bit Arm by Debian's cross compiler; what was built runs here under qemu. fmt, CLI11 and Highway are used
# as headers alone, which are the same on every machine, so that the host's packages serve.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
set(CMAKE_CXX_FLAGS_INIT -Wno-psabi)  # notes about a change of ABI in GCC 10
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64 -L /usr/aarch64-linux-gnu)
file(GLOB fmt_DIR /usr/lib/*/cmake/fmt)
