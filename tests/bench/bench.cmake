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
