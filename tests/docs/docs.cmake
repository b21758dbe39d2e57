# Runs the commands and snippets of the documents and of --help as printed. Snippets in C++ are built
# with the copy that install.examples installs.
if(HELIOGRAPH_SANITIZE)
  return()
endif()
include(PythonWith)
find_python_with(python_of_docs numpy scipy)
if(NOT python_of_docs)
  find_program(python_of_docs python3 REQUIRED)
endif()
function(add_docs_test name)
  add_test(NAME docs.${name}
    COMMAND ${python_of_docs} -B ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/test_documents.py ${ARGN}
            --heliograph ${PROJECT_BINARY_DIR}/heliograph --cxx ${CMAKE_CXX_COMPILER}
            --prefix ${PROJECT_BINARY_DIR}/install_test/prefix)
  set_tests_properties(docs.${name} PROPERTIES LABELS docs TIMEOUT 300)
endfunction()
add_docs_test(self_test self)
add_docs_test(help help)
add_docs_test(readme README.md)
add_docs_test(pages pages README.md)
set_tests_properties(docs.readme docs.pages PROPERTIES FIXTURES_REQUIRED installed)
# Some commands start the processes of a job.
set_tests_properties(docs.readme docs.pages PROPERTIES
  RESOURCE_LOCK processes COST 100)
