# cmake -D BUILD= -D EXAMPLE= -D SCRATCH= -D CXX= -P install.cmake: see install_test.cmake.
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
run(${CMAKE_COMMAND} -S ${EXAMPLE} -B ${SCRATCH}/build -G Ninja -DCMAKE_BUILD_TYPE=Release
    -DCMAKE_CXX_COMPILER=${CXX} -DCMAKE_PREFIX_PATH=${SCRATCH}/prefix)
run(${CMAKE_COMMAND} --build ${SCRATCH}/build)

# The package that was found must be the one that was just installed.
file(STRINGS ${SCRATCH}/build/CMakeCache.txt found REGEX "^heliograph_DIR:")
if(NOT found MATCHES "${SCRATCH}/prefix")
  message(FATAL_ERROR "the example was built against another installation: ${found}")
endif()

run(${SCRATCH}/build/embed)
if(NOT output MATCHES "test accuracy 0\\.[5-9]")
  message(FATAL_ERROR "the example did not learn:\n${output}")
endif()
