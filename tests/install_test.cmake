# Installs the build into an empty prefix, builds examples/embed against that and runs it.
if(NOT HELIOGRAPH_SANITIZE)
  add_test(NAME install.embed
    COMMAND ${CMAKE_COMMAND}
      -D BUILD=${PROJECT_BINARY_DIR} -D EXAMPLE=${PROJECT_SOURCE_DIR}/examples/embed
      -D SCRATCH=${PROJECT_BINARY_DIR}/install_test -D CXX=${CMAKE_CXX_COMPILER}
      -P ${CMAKE_CURRENT_LIST_DIR}/install.cmake)
  set_tests_properties(install.embed PROPERTIES LABELS install TIMEOUT 300
    FIXTURES_SETUP installed)
endif()
