# The instruction sets of the target, in rising order, and what the compiler
# is told for each. ATTEND_ISAS is compiled from src/kernels/cpu, each source
# once per set; AMX has sources of its own in src/kernels/cpu/amx.
string(TOLOWER "${CMAKE_SYSTEM_PROCESSOR}" processor)
set(ATTEND_ISAS scalar)
set(ATTEND_BASE_FLAGS "")
if(processor MATCHES "^(x86_64|amd64)$")
  list(APPEND ATTEND_ISAS avx2 avx512)
  set(ATTEND_BASE_FLAGS -march=x86-64)
  set(ATTEND_FLAGS_avx2 -mavx2 -mfma -mf16c)
  set(ATTEND_FLAGS_avx512 -mavx512f -mavx512bw -mavx512dq -mavx512vl -mfma
      -mf16c -mprefer-vector-width=512)
  set(ATTEND_FLAGS_amx ${ATTEND_FLAGS_avx512} -mavx512bf16 -mamx-tile
      -mamx-bf16 -mamx-int8)
elseif(processor MATCHES "^(aarch64|arm64)$")
  list(APPEND ATTEND_ISAS neon)
endif()
# Slow builds that only run here need no sets that this machine lacks.
if(ATTEND_WITHOUT_AVX512)
  list(REMOVE_ITEM ATTEND_ISAS avx512)
  unset(ATTEND_FLAGS_amx)
endif()
# Fuzzers: wide kernels with checks inside take minutes to compile, and bytes of
# files never reach them.
if(ATTEND_SCALAR_ONLY)
  set(ATTEND_ISAS scalar)
  unset(ATTEND_FLAGS_amx)
endif()
