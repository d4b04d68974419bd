# Toolchain: 64-bit Arm from another machine; programs are static and run
# under qemu-user. cmake -B DIR --toolchain cmake/aarch64.cmake
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64 -L /usr/aarch64-linux-gnu)
set(CMAKE_FIND_ROOT_PATH /usr/aarch64-linux-gnu)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
set(ATTEND_STATIC ON CACHE BOOL "Link fully statically")
set(ATTEND_TEXT OFF CACHE BOOL "No utf8proc and PCRE2 for this target")
set(ATTEND_BLAS OFF CACHE BOOL "No OpenBLAS for this target")
