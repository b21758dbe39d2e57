#pragma once

// Which instruction sets Google Highway compiles; included before every other Highway header.
// SSSE3 adds nothing over SSE4 here, and is left out to keep the build short.

#ifndef HWY_DISABLED_TARGETS
#define HWY_DISABLED_TARGETS HWY_SSSE3
#endif
