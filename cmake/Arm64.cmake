# Toolchain: Debian's GCC for 64-bit Arm, libraries for Arm under build/arm64-root (made by
# scripts/test_arm.sh), and QEMU's user mode to run what was built.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)

get_filename_component(arm64_root ${CMAKE_CURRENT_LIST_DIR}/../build/arm64-root ABSOLUTE)
set(CMAKE_FIND_ROOT_PATH ${arm64_root})
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)

# The first folder for the project's libraries, both for what those need themselves.
set(arm64_libraries ${arm64_root}/usr/lib/aarch64-linux-gnu)
string(CONCAT CMAKE_EXE_LINKER_FLAGS_INIT "-L${arm64_libraries} "
  "-Wl,-rpath-link,${arm64_libraries}:${arm64_root}/lib/aarch64-linux-gnu")
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64 -L ${arm64_root})
