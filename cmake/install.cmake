# What `cmake --install` writes, for pkg-config and for find_package. Both find
# their prefix from where they lie: the tree may be moved.
include(CMakePackageConfigHelpers)

# What is installed, without the tests and examples.
add_custom_target(attend_installed DEPENDS attend_shared attend_static
                  attend_lab_shared attend_lab_static)
foreach(target attend_cli attend_man)
  if(TARGET ${target})
    add_dependencies(attend_installed ${target})
  endif()
endforeach()

install(DIRECTORY include/attend DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
        FILES_MATCHING PATTERN "*.h")
install(TARGETS attend_shared attend_static attend_lab_shared attend_lab_static
        EXPORT attend
        LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
        ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
if(TARGET attend_cuda) # where it was built: `make` does, `make demo` does not
  install(TARGETS attend_cuda LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} OPTIONAL)
endif()
if(TARGET attend_cli)
  install(TARGETS attend_cli DESTINATION ${CMAKE_INSTALL_BINDIR})
  install(DIRECTORY models/ DESTINATION ${CMAKE_INSTALL_DATADIR}/attend/models)
endif()

set(package ${CMAKE_INSTALL_LIBDIR}/cmake/attend)
install(EXPORT attend NAMESPACE attend:: FILE attendConfig.cmake
        DESTINATION ${package})
set(compatibility SameMajorVersion)
if(PROJECT_VERSION_MAJOR EQUAL 0)
  set(compatibility SameMinorVersion)
endif()
write_basic_package_version_file(attendConfigVersion.cmake
                                 COMPATIBILITY ${compatibility})
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/attendConfigVersion.cmake
        DESTINATION ${package})

if(IS_ABSOLUTE "${CMAKE_INSTALL_LIBDIR}")
  set(pc_prefix ${CMAKE_INSTALL_PREFIX})
else()
  file(RELATIVE_PATH up /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
  string(REGEX REPLACE "/$" "" up "${up}")
  set(pc_prefix "\${pcfiledir}/${up}")
endif()
configure_file(cmake/attend.pc.in attend.pc @ONLY)
configure_file(cmake/attend-lab.pc.in attend-lab.pc @ONLY)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/attend.pc
              ${CMAKE_CURRENT_BINARY_DIR}/attend-lab.pc
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
