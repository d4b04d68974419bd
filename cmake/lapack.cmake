# LAPACKE, for the singular values of `attend study`. The library asks for it by
# a weak name (lab/numeric/svd.c), so that what is installed needs nothing more.
# The program opens it at first use (cli/bench/blas.c), the tests link it. Without it a
# loop of our own serves: it may be missing. Static programs leave it out: it
# needs Fortran's library.
set(ATTEND_LAPACK_LIBRARIES)
if(NOT ATTEND_BLAS)
  return()
endif()
find_path(ATTEND_LAPACKE_INCLUDE lapacke.h)
find_library(ATTEND_LAPACKE_FILE lapacke)
if(NOT ATTEND_LAPACKE_INCLUDE OR NOT ATTEND_LAPACKE_FILE)
  message(STATUS "LAPACKE was not found: studies find singular values by "
                 "themselves")
  return()
endif()
set_property(SOURCE lab/numeric/svd.c APPEND PROPERTY COMPILE_DEFINITIONS
             ATTEND_HAVE_LAPACKE=1)
set_property(SOURCE lab/numeric/svd.c APPEND PROPERTY INCLUDE_DIRECTORIES
             ${ATTEND_LAPACKE_INCLUDE})
if(NOT ATTEND_STATIC)
  # A weak name alone does not make a library needed.
  set(ATTEND_LAPACK_LIBRARIES -Wl,--push-state,--no-as-needed
      ${ATTEND_LAPACKE_FILE} -Wl,--pop-state)
endif()
