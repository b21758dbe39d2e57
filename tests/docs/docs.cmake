# Runs the commands and snippets of the documents and of --help as printed. Snippets in C++ are built
# with the copy that install.examples installs.
if(HELIOGRAPH_SANITIZE)
  return()
endif()
find_package(Python3 COMPONENTS Interpreter REQUIRED)
function(add_docs_test name)
  add_test(NAME docs.${name}
    COMMAND ${Python3_EXECUTABLE} -B ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/test_documents.py ${ARGN}
            --heliograph ${PROJECT_BINARY_DIR}/heliograph --cxx ${CMAKE_CXX_COMPILER}
            --prefix ${PROJECT_BINARY_DIR}/install_test/prefix)
  set_tests_properties(docs.${name} PROPERTIES LABELS docs TIMEOUT 300)
endfunction()
add_docs_test(self_test self)
add_docs_test(help help)
add_docs_test(readme README.md)
add_docs_test(pages pages README.md)
set_tests_properties(docs.readme docs.pages PROPERTIES FIXTURES_REQUIRED installed)
# Processes use every core and have deadlines.
set_tests_properties(docs.readme docs.pages PROPERTIES RUN_SERIAL ON)
