# The scripts under bench/, with the built command. Skipped by name where there is no NumPy.
include(FindPythonWith)
find_python_with(python_with_numpy numpy)
if(NOT python_with_numpy)
  find_program(python_with_numpy python3 REQUIRED)
endif()
add_test(NAME bench.scripts
  COMMAND ${python_with_numpy} -B ${CMAKE_CURRENT_LIST_DIR}/test_bench.py
          $<TARGET_FILE:heliograph_command>)
set_tests_properties(bench.scripts PROPERTIES LABELS bench TIMEOUT 300 SKIP_RETURN_CODE 77)

# The benchmark of device kernels, on the emulated device: that it measures all of them.
add_executable(device_bench_emulated ${PROJECT_SOURCE_DIR}/bench/device_bench.cpp
                                     ${PROJECT_SOURCE_DIR}/bench/device/results.cpp
                                     ${PROJECT_SOURCE_DIR}/bench/device/no_cusparse.cpp)
target_include_directories(device_bench_emulated BEFORE
  PRIVATE ${CMAKE_CURRENT_LIST_DIR}/../cuda_emulation/include ${PROJECT_SOURCE_DIR}/src
          ${PROJECT_SOURCE_DIR}/bench)
target_link_libraries(device_bench_emulated
  PRIVATE heliograph_cuda_emulated heliograph_library heliograph_flags)
add_test(NAME bench.device_emulated
  COMMAND device_bench_emulated --rows=64 --outputs=33 --degree=5 --width=40 --copy-mib=1 --gemm=32
          --seconds=0.001)
set_tests_properties(bench.device_emulated PROPERTIES LABELS bench TIMEOUT 120
  PASS_REGULAR_EXPRESSION "gemm/layer/tf32 .*gemm_bias .*encode/1 .*aggregate_halo/1 .*aggregate_inner .*aggregate_inner_bf16 .*norm_act_backward .*softmax_cross_entropy .*adam ")
