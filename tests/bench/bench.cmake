# Tests of the scripts under bench/ with the built command, skipped where there is no NumPy.
include(PythonWith)
find_python_with(python_with_numpy numpy)
if(NOT python_with_numpy)
  find_program(python_with_numpy python3 REQUIRED)
endif()
add_test(NAME bench.scripts
  COMMAND ${python_with_numpy} -B ${CMAKE_CURRENT_LIST_DIR}/test_bench.py
          $<TARGET_FILE:heliograph_command>)
set_tests_properties(bench.scripts PROPERTIES LABELS bench TIMEOUT 300 SKIP_RETURN_CODE 77)
add_test(NAME bench.torch_epoch
  COMMAND ${python_with_numpy} -B ${CMAKE_CURRENT_LIST_DIR}/test_torch_epoch.py)
set_tests_properties(bench.torch_epoch PROPERTIES LABELS bench TIMEOUT 60)

# A test of the benchmark of device kernels, on the emulated device.
add_emulated_kernels(heliograph_bench_kernels ${PROJECT_SOURCE_DIR}/bench/device/decode_rows.cu)
add_executable(device_bench_emulated ${PROJECT_SOURCE_DIR}/bench/device_bench.cpp
                                     ${PROJECT_SOURCE_DIR}/bench/device/options.cpp
                                     ${PROJECT_SOURCE_DIR}/bench/device/results.cpp
                                     ${PROJECT_SOURCE_DIR}/bench/device/timer.cpp
                                     ${PROJECT_SOURCE_DIR}/bench/device/aggregations.cpp
                                     ${PROJECT_SOURCE_DIR}/bench/device/gradient_product.cpp
                                     ${PROJECT_SOURCE_DIR}/bench/device/no_cusparse.cpp)
target_include_directories(device_bench_emulated BEFORE
  PRIVATE ${CMAKE_CURRENT_LIST_DIR}/../cuda_emulation/include ${PROJECT_SOURCE_DIR}/src
          ${PROJECT_SOURCE_DIR}/bench)
target_link_libraries(device_bench_emulated
  PRIVATE heliograph_bench_kernels heliograph_cuda_emulated heliograph_library heliograph_flags)
add_test(NAME bench.device_emulated
  COMMAND ${python_with_numpy} -B ${CMAKE_CURRENT_LIST_DIR}/test_device_bench.py
          $<TARGET_FILE:device_bench_emulated>)
set_tests_properties(bench.device_emulated PROPERTIES LABELS bench TIMEOUT 120)
