# Tests of the scripts on a machine of stand-ins.
find_package(Python3 COMPONENTS Interpreter REQUIRED)
add_test(NAME scripts.install_dependencies
  COMMAND ${Python3_EXECUTABLE} -B ${CMAKE_CURRENT_LIST_DIR}/test_install_dependencies.py)
set_tests_properties(scripts.install_dependencies PROPERTIES LABELS scripts TIMEOUT 60)
# It measures rates, so nothing may run beside it. Without root or namespaces most of it is skipped.
add_test(NAME scripts.emulated_cluster
  COMMAND ${Python3_EXECUTABLE} -B ${CMAKE_CURRENT_LIST_DIR}/test_emulated_cluster.py)
set_tests_properties(scripts.emulated_cluster PROPERTIES
  LABELS scripts TIMEOUT 240 RUN_SERIAL TRUE)
add_test(NAME scripts.arguments
  COMMAND ${Python3_EXECUTABLE} -B ${CMAKE_CURRENT_LIST_DIR}/test_arguments.py)
set_tests_properties(scripts.arguments PROPERTIES LABELS scripts TIMEOUT 60)
foreach(name gpu_check gpu_check_parts)
  add_test(NAME scripts.${name}
    COMMAND ${Python3_EXECUTABLE} -B ${CMAKE_CURRENT_LIST_DIR}/test_${name}.py
            ${PROJECT_BINARY_DIR}/heliograph)
  # Long tests begin first, so that none runs alone at the end.
  set_tests_properties(scripts.${name} PROPERTIES LABELS scripts TIMEOUT 480 COST 100)
endforeach()
add_test(NAME scripts.nccl_version
  COMMAND ${CMAKE_COMMAND} -D FOLDER=${CMAKE_CURRENT_BINARY_DIR}/nccl_version
          -P ${CMAKE_CURRENT_LIST_DIR}/test_nccl_version.cmake)
set_tests_properties(scripts.nccl_version PROPERTIES LABELS scripts TIMEOUT 60)
