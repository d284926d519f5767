# Toolchain: cross-compiles for AArch64 on a Debian or Ubuntu machine (packages
# g++-aarch64-linux-gnu, qemu-user-static), and runs what it built under qemu.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64-static -L /usr/aarch64-linux-gnu)
set(CMAKE_FIND_ROOT_PATH /usr/aarch64-linux-gnu)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)

# xsimd and DLPack are headers that serve any machine, but /usr/include as a whole does not.
foreach(headers IN ITEMS xsimd dlpack)
  if(EXISTS /usr/include/${headers} AND NOT EXISTS ${CMAKE_BINARY_DIR}/headers/${headers})
    file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/headers)
    file(CREATE_LINK /usr/include/${headers} ${CMAKE_BINARY_DIR}/headers/${headers} SYMBOLIC)
  endif()
endforeach()
set(TWINOPS_XSIMD_INCLUDE_DIR ${CMAKE_BINARY_DIR}/headers CACHE PATH "xsimd's headers")
set(TWINOPS_DLPACK_INCLUDE_DIR ${CMAKE_BINARY_DIR}/headers CACHE PATH "DLPack's header")
