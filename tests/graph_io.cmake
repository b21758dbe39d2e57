# The Python that writes the fixtures: any that has NumPy and SciPy; without one the tests that
# need it are skipped by name.
foreach(candidate python3 /usr/bin/python3)
  find_program(found_python ${candidate} NO_CACHE)
  if(found_python)
    execute_process(COMMAND ${found_python} -c "import numpy, scipy.sparse, scipy.io"
                    RESULT_VARIABLE python_lacks OUTPUT_QUIET ERROR_QUIET)
    if(python_lacks EQUAL 0)
      set(fixture_python ${found_python})
      break()
    endif()
  endif()
  unset(found_python)
endforeach()
if(TARGET test_graph_io)
  target_compile_definitions(test_graph_io PRIVATE HELIOGRAPH_FIXTURE_PYTHON="${fixture_python}")
endif()
