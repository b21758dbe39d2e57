# An NCCL that is too old is left out by name, or refused where it was asked for: cmake -D FOLDER=... -P
set(header ${FOLDER}/nccl.h)

function(expect how version code words)
  string(REPLACE "." ";" parts ${version})
  list(GET parts 0 major)
  list(GET parts 1 minor)
  file(WRITE ${header} "#ifndef NCCL_H_\n#define NCCL_MAJOR ${major}\n#define NCCL_MINOR ${minor}\n#endif\n")
  file(WRITE ${FOLDER}/try.cmake "include(${CMAKE_CURRENT_FUNCTION_LIST_DIR}/../../cmake/Nccl.cmake)\n"
       "message(STATUS \"has \${HELIOGRAPH_HAS_NCCL}\")\n")
  execute_process(COMMAND ${CMAKE_COMMAND} -D HELIOGRAPH_HAS_CUDA=ON -D HELIOGRAPH_NCCL=${how}
    -D NCCL_INCLUDE_DIR=${FOLDER} -D NCCL_LIBRARY=${header} -P ${FOLDER}/try.cmake
    RESULT_VARIABLE result OUTPUT_VARIABLE said ERROR_VARIABLE said)
  string(REGEX REPLACE "[ \n]+" " " said "${said}")
  if(NOT result EQUAL code OR NOT said MATCHES "${words}")
    message(SEND_ERROR "${how} ${version}: exit code ${result}, not ${code}; '${said}' lacks '${words}'")
  endif()
endfunction()

expect(AUTO 2.13 0 "No NCCL transport: .*nccl.h is of NCCL 2.13; 2.14 or newer is needed.*has OFF")
expect(AUTO 1.99 0 "NCCL 1.99; 2.14 .*has OFF")
expect(AUTO 2.14 0 "has ON")
expect(AUTO 2.9 0 "NCCL 2.9; 2.14 .*has OFF")
expect(AUTO 3.0 0 "has ON")
expect(ON 2.13 1 "HELIOGRAPH_NCCL=ON: .*is of NCCL 2.13; 2.14 or newer is needed, or -DHELIOGRAPH_NCCL=OFF")
expect(ON 2.28 0 "has ON")
expect(OFF 2.28 0 "has OFF")
