# Read by CTest after it has found the tests: those that bound wall time run with nothing beside.
foreach(test IN LISTS test_comm_TESTS)
  if(test MATCHES "^(ShapedLink|RankWatch)\\.")
    set_tests_properties("${test}" PROPERTIES RUN_SERIAL TRUE)
  endif()
endforeach()
