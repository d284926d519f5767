# What `cmake --install` lays down: library, headers, the twinops command if it is built, and what
# find_package(twinops CONFIG) and pkg-config read. Every path is relative, so that the installed
# tree may be moved. Included last: the command must exist.
include(CMakePackageConfigHelpers)

install(TARGETS twinops EXPORT twinopsTargets)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/ TYPE INCLUDE)
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE ${PROJECT_SOURCE_DIR}/THIRD_PARTY_LICENSES TYPE DOC)
if(TARGET twinops_command)
  file(RELATIVE_PATH bin_to_lib /prefix/${CMAKE_INSTALL_BINDIR} /prefix/${CMAKE_INSTALL_LIBDIR})
  set_target_properties(twinops_command PROPERTIES INSTALL_RPATH
    "$ORIGIN/${bin_to_lib};$ORIGIN")  # beside it in the Python package
  install(TARGETS twinops_command)
endif()

set(config_dir ${CMAKE_INSTALL_LIBDIR}/cmake/twinops)
install(EXPORT twinopsTargets NAMESPACE twinops:: DESTINATION ${config_dir})
configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/twinopsConfig.cmake.in
  ${PROJECT_BINARY_DIR}/twinopsConfig.cmake INSTALL_DESTINATION ${config_dir})
# Until 1.0 a new minor version may break what was built against the one before.
write_basic_package_version_file(${PROJECT_BINARY_DIR}/twinopsConfigVersion.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/twinopsConfig.cmake
              ${PROJECT_BINARY_DIR}/twinopsConfigVersion.cmake
        DESTINATION ${config_dir})

file(RELATIVE_PATH pc_to_prefix /prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig /prefix)
configure_file(${CMAKE_CURRENT_LIST_DIR}/twinops.pc.in ${PROJECT_BINARY_DIR}/twinops.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/twinops.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
