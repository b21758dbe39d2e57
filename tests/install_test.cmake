# Installs the build into an empty prefix, builds the examples against that and runs them.
if(NOT HELIOGRAPH_SANITIZE)
  add_test(NAME install.examples
    COMMAND ${CMAKE_COMMAND}
      -D BUILD=${PROJECT_BINARY_DIR} -D EXAMPLES=${PROJECT_SOURCE_DIR}/examples
      -D SCRATCH=${PROJECT_BINARY_DIR}/install_test -D CXX=${CMAKE_CXX_COMPILER}
      -P ${CMAKE_CURRENT_LIST_DIR}/install.cmake)
  set_tests_properties(install.examples PROPERTIES LABELS install TIMEOUT 300
    FIXTURES_SETUP installed)
endif()
