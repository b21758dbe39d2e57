#pragma once

// Chooses the instruction sets for which Google Highway compiles; every file includes this before
// any Highway header. x86 processors without AVX2 run the portable code: kernels for SSSE3 and
// SSE4 would lengthen every build for machines that are rarely trained on.

#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4)
