# Twin tests of the device sources, tests/cuda/*.cpp, twice from the same text: test_cuda runs the
# device sources on an emulated device (tests/cuda_emulation/), test_cuda_device on a real one.
set(emulation ${CMAKE_CURRENT_LIST_DIR}/cuda_emulation)
set(device_root ${PROJECT_SOURCE_DIR}/src)
file(GLOB emulator_sources CONFIGURE_DEPENDS ${emulation}/*.cpp)
file(GLOB device_sources CONFIGURE_DEPENDS
  ${device_root}/core/cuda/*.cu ${device_root}/core/cuda/*.cpp
  ${device_root}/quant/cuda/*.cu ${device_root}/quant/cuda/*.cpp ${device_root}/comm/nccl/*.cpp)
list(FILTER device_sources EXCLUDE REGEX "/(no_[a-z]+|load_cublas)\\.cpp$")
file(GLOB emulation_tests CONFIGURE_DEPENDS ${emulation}/tests/*.cpp)
file(GLOB probe_kernels CONFIGURE_DEPENDS ${emulation}/tests/*.cu)
set(kernels ${device_sources})
list(FILTER kernels INCLUDE REGEX "\\.cu$")
list(REMOVE_ITEM device_sources ${kernels})
# A device traps at a misaligned access, but x86 does not. Sanitizer builds have a check of their own.
set(kernel_options -include cuda_runtime.h -Wno-unknown-pragmas)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64)$" AND NOT HELIOGRAPH_SANITIZE)
  list(APPEND kernel_options -fsanitize=alignment -fsanitize-undefined-trap-on-error)
  set_source_files_properties(${emulation}/tests/emulation_test.cpp PROPERTIES
    COMPILE_DEFINITIONS HELIOGRAPH_KERNELS_TRAP)
endif()

# Compiles kernels as C++. nvcc includes the runtime's header without being told.
function(add_emulated_kernels target)
  set_source_files_properties(${ARGN} PROPERTIES LANGUAGE CXX)
  add_library(${target} OBJECT ${ARGN})
  target_compile_definitions(${target} PRIVATE __CUDACC__)
  target_compile_options(${target} PRIVATE ${kernel_options})
  target_include_directories(${target} BEFORE PRIVATE ${emulation}/include ${emulation}
    ${device_root} ${PROJECT_SOURCE_DIR}/bench)
  target_link_libraries(${target} PRIVATE heliograph_library heliograph_flags)
endfunction()

# Objects take precedence over the real sources, which are in a library.
add_emulated_kernels(heliograph_kernels_emulated ${kernels})
add_emulated_kernels(heliograph_probe_kernels ${probe_kernels})
add_library(heliograph_cuda_emulated OBJECT ${emulator_sources} ${device_sources})
target_include_directories(heliograph_cuda_emulated PUBLIC ${emulation}/include
  PRIVATE ${emulation} ${device_root})
target_link_libraries(heliograph_cuda_emulated PRIVATE heliograph_library heliograph_flags)
target_sources(heliograph_cuda_emulated INTERFACE $<TARGET_OBJECTS:heliograph_kernels_emulated>)

file(GLOB twin_tests CONFIGURE_DEPENDS cuda/*.cpp)
file(GLOB emulated_tests CONFIGURE_DEPENDS cuda/emulated/*.cpp)
# Tests that include no header of CUDA are compiled once for both, unless only some builds have what
# they test.
set(cuda_tests ${twin_tests})
list(FILTER cuda_tests INCLUDE REGEX "/(gemm|nccl)_test\\.cpp$")
list(REMOVE_ITEM twin_tests ${cuda_tests})
add_library(heliograph_twin_tests OBJECT ${twin_tests})
target_link_libraries(heliograph_twin_tests PRIVATE heliograph_test_support)
add_executable(test_cuda ${cuda_tests} ${emulated_tests} ${emulation_tests})
target_include_directories(test_cuda BEFORE PRIVATE ${emulation}/include ${emulation})
target_link_libraries(test_cuda PRIVATE
  heliograph_twin_tests heliograph_probe_kernels heliograph_cuda_emulated heliograph_test_support)
discover_tests(test_cuda cuda)

if(HELIOGRAPH_HAS_CUDA)
  if(NOT HELIOGRAPH_HAS_NCCL)
    list(FILTER cuda_tests EXCLUDE REGEX "/nccl_test\\.cpp$")
  endif()
  add_executable(test_cuda_device ${cuda_tests})
  target_link_libraries(test_cuda_device PRIVATE
    heliograph_twin_tests heliograph_test_support CUDA::cudart_static)
  discover_tests(test_cuda_device cuda TEST_PREFIX "device.")
  # No real kernel may be linked into the emulated tests.
  add_test(NAME cuda.only_emulated
    COMMAND sh -c "! ${CMAKE_NM} $<TARGET_FILE:test_cuda> | grep __cudaRegisterFatBinary")
  set_tests_properties(cuda.only_emulated PROPERTIES LABELS cuda TIMEOUT 60)
endif()
