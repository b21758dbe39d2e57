include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

install(TARGETS heliograph_library EXPORT heliographTargets
        ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
        INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
if(TARGET heliograph_command)
  install(TARGETS heliograph_command RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(EXPORT heliographTargets NAMESPACE heliograph::
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/heliograph)
configure_package_config_file(
  ${PROJECT_SOURCE_DIR}/cmake/heliographConfig.cmake.in
  ${PROJECT_BINARY_DIR}/heliographConfig.cmake
  INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/heliograph)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/heliographConfigVersion.cmake
                                 COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/heliographConfig.cmake
              ${PROJECT_BINARY_DIR}/heliographConfigVersion.cmake
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/heliograph)
