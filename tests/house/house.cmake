# Two tests for each house rule: the rule holds, and its check finds violations.
find_package(Python3 COMPONENTS Interpreter REQUIRED)
foreach(check include_direction includes_what_it_names one_room_packages quiet_library
              fuzz_compiler machine_paths test_filters clang_format public_headers)
  set(house ${Python3_EXECUTABLE} -B ${CMAKE_CURRENT_LIST_DIR}/house.py ${check}
            --compiler ${CMAKE_CXX_COMPILER})
  add_test(NAME house.${check} COMMAND ${house} --root ${PROJECT_SOURCE_DIR})
  add_test(NAME house.${check}.self_test COMMAND ${house} --self-test)
  set_tests_properties(house.${check} house.${check}.self_test PROPERTIES
    LABELS house TIMEOUT 120 SKIP_RETURN_CODE 77)
endforeach()
