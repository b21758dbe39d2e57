# Ranks as processes: started by mpirun, skipped by name where MPI is not built or mpirun is missing.
if(HELIOGRAPH_HAS_MPI)
  file(GLOB mpi_test_sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_LIST_DIR}/*.cpp)
  add_executable(test_mpi_ranks ${mpi_test_sources})
  target_link_libraries(test_mpi_ranks PRIVATE heliograph_test_support MPI::MPI_CXX)
  target_compile_definitions(test_mpi_ranks PRIVATE OMPI_SKIP_MPICXX MPICH_SKIP_MPICXX)
  add_dependencies(test_mpi_ranks heliograph_command)
  set(mpi_test_program $<TARGET_FILE:test_mpi_ranks>)
else()
  set(mpi_test_program none)
endif()
find_package(Python3 COMPONENTS Interpreter REQUIRED)
foreach(case ranks_2 ranks_3 ranks_4 callers_mpi faults oracle lost_rank
        lost_at_the_end resume command)
  add_test(NAME mpi.${case}
    COMMAND ${Python3_EXECUTABLE} -B ${CMAKE_CURRENT_LIST_DIR}/test_mpi.py ${case}
            --program ${mpi_test_program} --heliograph ${PROJECT_BINARY_DIR}/heliograph)
  # They take every core and watch the clock.
  set_tests_properties(mpi.${case} PROPERTIES
    LABELS mpi TIMEOUT 600 SKIP_RETURN_CODE 77 RUN_SERIAL ON)
endforeach()
