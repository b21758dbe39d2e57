# Tests of the experiment scripts with a stand-in for the command, skipped where there is no NumPy.
include(PythonWith)
find_python_with(python_with_numpy numpy)
if(NOT python_with_numpy)
  find_program(python_with_numpy python3 REQUIRED)
endif()
add_test(NAME experiments.scripts
  COMMAND ${python_with_numpy} -B ${CMAKE_CURRENT_LIST_DIR}/test_experiments.py)
set_tests_properties(experiments.scripts PROPERTIES
  LABELS experiments TIMEOUT 300 SKIP_RETURN_CODE 77)
add_test(NAME experiments.sweep
  COMMAND ${python_with_numpy} -B ${CMAKE_CURRENT_LIST_DIR}/test_sweep.py)
set_tests_properties(experiments.sweep PROPERTIES
  LABELS experiments TIMEOUT 300 COST 100 SKIP_RETURN_CODE 77)
add_test(NAME experiments.headline
  COMMAND ${python_with_numpy} -B ${CMAKE_CURRENT_LIST_DIR}/test_headline.py)
set_tests_properties(experiments.headline PROPERTIES LABELS experiments TIMEOUT 300)
find_python_with(python_with_scipy numpy scipy)
if(NOT python_with_scipy)
  set(python_with_scipy ${python_with_numpy})
endif()
add_test(NAME experiments.convert
  COMMAND ${python_with_scipy} -B ${CMAKE_CURRENT_LIST_DIR}/test_convert.py
          --heliograph ${PROJECT_BINARY_DIR}/heliograph)
set_tests_properties(experiments.convert PROPERTIES
  LABELS experiments TIMEOUT 300 SKIP_RETURN_CODE 77)
# It mostly waits, so it runs among the last (see tests/mpi/mpi.cmake).
add_test(NAME experiments.faults
  COMMAND ${python_with_numpy} -B ${CMAKE_CURRENT_LIST_DIR}/test_faults.py)
set_tests_properties(experiments.faults PROPERTIES LABELS experiments TIMEOUT 300 COST -1)
# Trials of the real command need MPI. They measure times, so nothing may run beside them.
add_test(NAME experiments.faults_of_the_command
  COMMAND ${python_with_numpy} -B ${CMAKE_CURRENT_LIST_DIR}/test_faults.py
          --heliograph ${PROJECT_BINARY_DIR}/heliograph)
set_tests_properties(experiments.faults_of_the_command PROPERTIES
  LABELS experiments TIMEOUT 300 RUN_SERIAL TRUE)
# Imports small graphs in the published forms, with the real command.
if(fixture_python)
  add_test(NAME experiments.published
    COMMAND ${fixture_python} -B ${PROJECT_SOURCE_DIR}/experiments/memory/published.py --scale 0.0002
            --form graphsaint-reddit ogbn-products ogbn-papers100M
            --out ${CMAKE_CURRENT_BINARY_DIR}/published --heliograph ${PROJECT_BINARY_DIR}/heliograph)
  set_tests_properties(experiments.published PROPERTIES LABELS experiments TIMEOUT 300)
endif()
