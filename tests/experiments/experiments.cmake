# The experiment scripts, with a stand-in for the command.
find_package(Python3 COMPONENTS Interpreter REQUIRED)
add_test(NAME experiments.scripts
  COMMAND ${Python3_EXECUTABLE} -B ${CMAKE_CURRENT_LIST_DIR}/test_experiments.py)
set_tests_properties(experiments.scripts PROPERTIES LABELS experiments TIMEOUT 120)
