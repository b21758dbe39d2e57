# CTest reads this after it has found the tests. Tests that bound wall time run alone.
foreach(test IN LISTS test_comm_TESTS)
  if(test MATCHES "^(ShapedLink|RankWatch)\\.")
    set_tests_properties("${test}" PROPERTIES RUN_SERIAL TRUE)
  endif()
endforeach()
