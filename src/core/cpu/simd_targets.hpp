#pragma once

// Selects the instruction sets for which Google Highway compiles; include it before any Highway
// header. SSSE3 is left out to shorten the build: CPUs without SSE4 use SSE2.

#ifndef HWY_DISABLED_TARGETS
#define HWY_DISABLED_TARGETS HWY_SSSE3
#endif
