# Flags of the project's own targets. Multiplications and additions are fused only where the code
# says so, on CPUs and GPUs, so that the same code gives the same bits everywhere.
add_library(heliograph_flags INTERFACE)
set(cxx_flags -Wall -Wextra -Wpedantic -Wshadow -Wno-psabi -ffp-contract=off
              -fno-math-errno)  # Nobody reads errno after a square root.
# -Wpedantic would warn of the line directives that nvcc passes to the host compiler. Warning 554 is of
# a conversion of a view of const values to itself.
set(cuda_flags --fmad=false --expt-relaxed-constexpr --diag-suppress=554
               -Xcompiler=-Wall,-Wextra,-Wshadow,-Wno-psabi,-ffp-contract=off)
if(HELIOGRAPH_WERROR)
  list(APPEND cxx_flags -Werror)
  list(APPEND cuda_flags --Werror=all-warnings -Xcompiler=-Werror)
endif()
if(HELIOGRAPH_SANITIZE)
  # More than -O1 and line numbers would take minutes a file.
  set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "-O1 -g1 -DNDEBUG")
  list(APPEND cxx_flags -fsanitize=${HELIOGRAPH_SANITIZE} -fno-omit-frame-pointer)
  target_link_options(heliograph_flags INTERFACE -fsanitize=${HELIOGRAPH_SANITIZE})
  if(HELIOGRAPH_SANITIZE MATCHES address AND CMAKE_CXX_COMPILER_ID STREQUAL GNU)
    # ASan's checks are function calls, because inline checks would double the build's time.
    list(APPEND cxx_flags --param=asan-instrumentation-with-call-threshold=0)
  endif()
  if(HELIOGRAPH_SANITIZE MATCHES undefined)
    list(APPEND cxx_flags -fno-sanitize-recover=undefined)
  endif()
endif()
if(HELIOGRAPH_FUZZ)
  list(APPEND cxx_flags -fsanitize=fuzzer-no-link)
endif()
target_compile_options(heliograph_flags INTERFACE "$<$<COMPILE_LANGUAGE:CXX>:${cxx_flags}>"
                                                  "$<$<COMPILE_LANGUAGE:CUDA>:${cuda_flags}>")
