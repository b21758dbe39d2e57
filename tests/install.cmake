# cmake -D BUILD= -D EXAMPLES= -D SCRATCH= -D CXX= -P install.cmake: see install_test.cmake.
function(run)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE output)
  message("${output}")
  if(NOT result EQUAL 0)
    message(FATAL_ERROR "failed (${result}): ${ARGN}")
  endif()
  set(output "${output}" PARENT_SCOPE)
endfunction()

file(REMOVE_RECURSE ${SCRATCH})
run(${CMAKE_COMMAND} --install ${BUILD} --prefix ${SCRATCH}/prefix)

# Builds an example and runs it; it has learnt if its output matches `expected`.
function(try_example name expected)
  set(build ${SCRATCH}/${name})
  run(${CMAKE_COMMAND} -S ${EXAMPLES}/${name} -B ${build} -G Ninja -DCMAKE_BUILD_TYPE=Release
      -DCMAKE_CXX_COMPILER=${CXX} -DCMAKE_PREFIX_PATH=${SCRATCH}/prefix)
  run(${CMAKE_COMMAND} --build ${build})
  # The package that was found must be the one that was just installed.
  file(STRINGS ${build}/CMakeCache.txt found REGEX "^heliograph_DIR:")
  if(NOT found MATCHES "${SCRATCH}/prefix")
    message(FATAL_ERROR "the example was built against another installation: ${found}")
  endif()
  run(${build}/${name})
  if(NOT output MATCHES "${expected}")
    message(FATAL_ERROR "the example did not learn:\n${output}")
  endif()
endfunction()

try_example(embed "test score 0\\.[5-9]")
try_example(score "new nodes: 400, of the right class: 0\\.[5-9]")
try_example(in_memory "stopped after [1-9][0-9]?[0-9]? of 1000 epochs; test accuracy 0\\.[5-9]")
