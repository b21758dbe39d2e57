# Ranks as processes: started by mpirun, skipped by name where MPI is not built or mpirun is missing.
if(HELIOGRAPH_HAS_MPI)
  file(GLOB mpi_test_sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_LIST_DIR}/*.cpp)
  add_executable(test_mpi_ranks ${mpi_test_sources})
  target_link_libraries(test_mpi_ranks PRIVATE heliograph_test_support MPI::MPI_CXX)
  target_compile_definitions(test_mpi_ranks PRIVATE OMPI_SKIP_MPICXX MPICH_SKIP_MPICXX)
  add_dependencies(test_mpi_ranks heliograph_command)
  set(mpi_test_program $<TARGET_FILE:test_mpi_ranks>)
  # The command itself, on the emulated device (tests/cuda.cmake).
  file(GLOB emulated_command_sources CONFIGURE_DEPENDS ${emulation}/command/*.cpp)
  add_executable(heliograph_emulated $<TARGET_OBJECTS:heliograph_command>
    $<TARGET_OBJECTS:heliograph_cli> ${emulated_command_sources})
  target_include_directories(heliograph_emulated BEFORE PRIVATE ${emulation}/include ${emulation}
    ${device_root})
  target_link_libraries(heliograph_emulated PRIVATE heliograph_cuda_emulated heliograph_library
    heliograph_flags)
  set(emulated_command $<TARGET_FILE:heliograph_emulated>)
else()
  set(mpi_test_program none)
  set(emulated_command none)
endif()
find_package(Python3 COMPONENTS Interpreter REQUIRED)
foreach(case ranks_2 ranks_3 ranks_4 callers_mpi faults oracle evaluation lost_rank
        lost_at_the_end launchers agreement resume command cuda cuda_aware cuda_lost_rank)
  add_test(NAME mpi.${case}
    COMMAND ${Python3_EXECUTABLE} -B ${CMAKE_CURRENT_LIST_DIR}/test_mpi.py ${case}
            --program ${mpi_test_program} --heliograph ${PROJECT_BINARY_DIR}/heliograph
            --emulated ${emulated_command})
  # Jobs of several processes run one after the other, from the start, since they often wait.
  set_tests_properties(mpi.${case} PROPERTIES
    LABELS mpi TIMEOUT 600 SKIP_RETURN_CODE 77 RESOURCE_LOCK processes COST 100)
endforeach()
# These wait for deadlines. A negative cost makes them the last to begin, so that they run beside each
# other; of those that train until a rank is lost, only one runs at a time.
set_tests_properties(mpi.faults mpi.lost_at_the_end PROPERTIES RESOURCE_LOCK "" COST -1)
set_tests_properties(mpi.lost_rank mpi.cuda_lost_rank PROPERTIES COST -1)
