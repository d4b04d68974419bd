# Man pages: docs/NAME.SECTION.scd -> build/man/NAME.SECTION
file(GLOB pages CONFIGURE_DEPENDS docs/*.[1-9].scd)
find_program(SCDOC scdoc)
if(pages AND NOT SCDOC)
  message(STATUS "scdoc was not found: no man pages are built "
                 "(tools/setup test installs it)")
  return()
endif()
set(man_outputs "")
foreach(page ${pages})
  get_filename_component(name ${page} NAME)
  string(REGEX REPLACE "\\.scd$" "" name ${name})
  string(REGEX REPLACE ".*\\." "" section ${name})
  set(output ${CMAKE_CURRENT_BINARY_DIR}/man/${name})
  add_custom_command(
    OUTPUT ${output}
    COMMAND ${CMAKE_COMMAND} -E make_directory ${CMAKE_CURRENT_BINARY_DIR}/man
    COMMAND ${SCDOC} < ${page} > ${output}
    DEPENDS ${page} VERBATIM)
  list(APPEND man_outputs ${output})
  install(FILES ${output} DESTINATION ${CMAKE_INSTALL_MANDIR}/man${section})
endforeach()
add_custom_target(attend_man ALL DEPENDS ${man_outputs})
