# A Python with NumPy and SciPy writes the fixtures. Tests that need them are skipped without one.
include(PythonWith)
find_python_with(fixture_python numpy scipy.sparse scipy.io)
if(TARGET test_graph_io)
  target_compile_definitions(test_graph_io PRIVATE HELIOGRAPH_FIXTURE_PYTHON="${fixture_python}")
endif()
