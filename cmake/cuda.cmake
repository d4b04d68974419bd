# libattend-cuda: the GPU's kernels, opened by name when a GPU is asked for. Nothing links it.
if(ATTEND_CUDA STREQUAL "OFF")
  return()
endif()
include(CheckLanguage)
check_language(CUDA)
if(NOT CMAKE_CUDA_COMPILER)
  if(ATTEND_CUDA STREQUAL "ON")
    message(FATAL_ERROR "libattend-cuda needs nvcc: install the CUDA toolkit 13, or set "
                        "ATTEND_CUDA=AUTO")
  endif()
  return()
endif()
if(NOT CMAKE_CUDA_ARCHITECTURES)
  set(CMAKE_CUDA_ARCHITECTURES 90a-real)
endif()
enable_language(CUDA)

file(GLOB cuda_sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/src/device/cuda/*.cu)
add_library(attend_cuda MODULE ${cuda_sources})
target_include_directories(attend_cuda PRIVATE ${CMAKE_CURRENT_SOURCE_DIR}/include
                                               ${CMAKE_CURRENT_SOURCE_DIR}/src)
target_compile_features(attend_cuda PRIVATE cuda_std_17)
target_compile_options(attend_cuda PRIVATE -Xcompiler=-Wall,-Wextra,-fvisibility=hidden)
set_target_properties(attend_cuda PROPERTIES OUTPUT_NAME attend-cuda PREFIX lib
                      CUDA_RUNTIME_LIBRARY Static)

# tests/gpu and bench/cuda_NAME.c (gpu_bench_NAME): built by the target gpu_tests and run by
# tools/test-gpu and bench/against_cuda.py; CTest does not know them, since they fail without a GPU.
if(ATTEND_BUILD_TESTS)
  add_custom_target(gpu_tests)
  file(GLOB gpu_tests CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/tests/gpu/test_*.c)
  file(GLOB gpu_benches CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/bench/cuda_*.c)
  foreach(source ${gpu_tests} ${gpu_benches})
    get_filename_component(name ${source} NAME_WE)
    string(REPLACE gpu_cuda_ gpu_bench_ name gpu_${name})
    add_executable(${name} EXCLUDE_FROM_ALL ${source})
    target_include_directories(${name} PRIVATE ${CMAKE_CURRENT_SOURCE_DIR}/tests/unit)
    target_link_libraries(${name} PRIVATE attend_internal attend_flags ${CMAKE_DL_LIBS})
    add_dependencies(gpu_tests ${name})
  endforeach()
  add_executable(gpu_test_tensor_cores EXCLUDE_FROM_ALL
                 ${CMAKE_CURRENT_SOURCE_DIR}/tests/gpu/test_tensor_cores.cu)
  target_include_directories(gpu_test_tensor_cores
                             PRIVATE ${CMAKE_CURRENT_SOURCE_DIR}/include
                                     ${CMAKE_CURRENT_SOURCE_DIR}/src)
  add_dependencies(gpu_tests gpu_test_tensor_cores attend_cuda)
endif()
