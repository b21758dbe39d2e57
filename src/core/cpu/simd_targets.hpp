#pragma once

// Chooses the instruction sets for which Google Highway compiles; every file includes this before
// any Highway header. x86 processors without AVX2 run the portable code: kernels for SSSE3 and
// SSE4 would lengthen every build for machines that are rarely trained on. Threads do the same on
// every instruction set, so ThreadSanitizer's build has one.

#if defined(__SANITIZE_THREAD__)
#define HWY_COMPILE_ONLY_STATIC
#else
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4)
#endif
