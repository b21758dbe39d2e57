# Ranks as processes that find each other by torchrun's variables, which the tests set themselves.
find_package(Python3 COMPONENTS Interpreter REQUIRED)
foreach(case oracle evaluation command overwrite damage advice stuck_results launchers resume run_key signals
        lost_rank)
  add_test(NAME tcp.${case}
    COMMAND ${Python3_EXECUTABLE} -B ${CMAKE_CURRENT_LIST_DIR}/test_tcp.py ${case}
            --heliograph ${PROJECT_BINARY_DIR}/heliograph)
  # Jobs of several processes run one after the other, from the start, since they often wait.
  set_tests_properties(tcp.${case} PROPERTIES LABELS tcp TIMEOUT 300
    RESOURCE_LOCK processes COST 100)
endforeach()
# These wait for deadlines (see tests/mpi/mpi.cmake).
set_tests_properties(tcp.command tcp.run_key tcp.stuck_results PROPERTIES RESOURCE_LOCK "" COST -1)
set_tests_properties(tcp.lost_rank PROPERTIES COST -1)
