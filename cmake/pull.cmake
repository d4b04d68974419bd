# What `attend pull` needs: libcurl (transfers), OpenSSL (hashes) and zlib. Programs
# to carry elsewhere do without: a static libcurl brings a dozen libraries, and
# names of hosts are found by the C library's shared parts alone. There the
# verb says so; what was pulled is found all the same.
set(ATTEND_PULL_LEAVES_OUT "^$")
set(ATTEND_PULL_LIBRARIES curl crypto z)
set(ATTEND_PULL_DEFINITIONS ATTEND_HAVE_PULL=1)
if(ATTEND_STATIC OR CMAKE_CROSSCOMPILING OR NOT ATTEND_PULL)
  set(ATTEND_PULL OFF)
  set(ATTEND_PULL_LEAVES_OUT "/cli/pull/(http|hub|npm|unpack)\\.c$")
  set(ATTEND_PULL_LIBRARIES)
  set(ATTEND_PULL_DEFINITIONS)
  return()
endif()
foreach(header curl/curl.h openssl/evp.h zlib.h)
  find_file(ATTEND_${header} ${header})
  if(NOT ATTEND_${header})
    message(FATAL_ERROR "${header} was not found: run tools/setup demo, or "
                        "configure with -DATTEND_PULL=OFF")
  endif()
endforeach()
