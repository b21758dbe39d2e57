# Flags of the project's own targets. Contraction is off so that the codec's arithmetic is the
# same on every target; where a fused multiply-add is wanted it is written.
add_library(heliograph_flags INTERFACE)
set(cxx_flags -Wall -Wextra -Wpedantic -Wshadow -Wno-psabi -ffp-contract=off)
# Not -Wpedantic: what nvcc hands to the host compiler is full of line directives. 554: a view of
# const values has a conversion to itself.
set(cuda_flags --expt-relaxed-constexpr --diag-suppress=554
               -Xcompiler=-Wall,-Wextra,-Wshadow,-Wno-psabi,-ffp-contract=off)
if(HELIOGRAPH_WERROR)
  list(APPEND cxx_flags -Werror)
  list(APPEND cuda_flags --Werror=all-warnings -Xcompiler=-Werror)
endif()
if(HELIOGRAPH_SANITIZE)
  # -O1, line numbers only and no SSE4 kernels: these would take minutes a file.
  list(APPEND cxx_flags -fsanitize=${HELIOGRAPH_SANITIZE} -fno-omit-frame-pointer -O1 -g1)
  target_compile_definitions(heliograph_flags
                             INTERFACE "HWY_DISABLED_TARGETS=(HWY_SSSE3|HWY_SSE4)")
  target_link_options(heliograph_flags INTERFACE -fsanitize=${HELIOGRAPH_SANITIZE})
  if(HELIOGRAPH_SANITIZE MATCHES address)
    # Checks are calls: written out they would double the time of a build.
    list(APPEND cxx_flags --param=asan-instrumentation-with-call-threshold=0)
  endif()
  if(HELIOGRAPH_SANITIZE MATCHES undefined)
    list(APPEND cxx_flags -fno-sanitize-recover=undefined)
  endif()
endif()
target_compile_options(heliograph_flags INTERFACE "$<$<COMPILE_LANGUAGE:CXX>:${cxx_flags}>"
                                                  "$<$<COMPILE_LANGUAGE:CUDA>:${cuda_flags}>")
