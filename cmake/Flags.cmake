# Flags of the project's own targets. Contraction is off so that the codec's arithmetic is the
# same on every target; where a fused multiply-add is wanted it is written.
add_library(heliograph_flags INTERFACE)
target_compile_options(heliograph_flags INTERFACE -Wall -Wextra -Wpedantic -Wshadow -Wno-psabi
                                                  -ffp-contract=off)
if(HELIOGRAPH_WERROR)
  target_compile_options(heliograph_flags INTERFACE -Werror)
endif()
if(HELIOGRAPH_SANITIZE)
  # -O1, line numbers only and no SSE4 kernels: these would take minutes a file.
  target_compile_options(heliograph_flags INTERFACE -fsanitize=${HELIOGRAPH_SANITIZE}
                                                    -fno-omit-frame-pointer -O1 -g1)
  target_compile_definitions(heliograph_flags
                             INTERFACE "HWY_DISABLED_TARGETS=(HWY_SSSE3|HWY_SSE4)")
  target_link_options(heliograph_flags INTERFACE -fsanitize=${HELIOGRAPH_SANITIZE})
  if(HELIOGRAPH_SANITIZE MATCHES undefined)
    target_compile_options(heliograph_flags INTERFACE -fno-sanitize-recover=undefined)
  endif()
endif()
