#pragma once

#include <string>

#include "core/function_ref.hpp"

namespace heliograph::fuzz {

/// Calls `read`, which may throw an Error with a known code and a sentence, and nothing else.
/// Prints any other exception and aborts, which counts as a finding.
void attempt(FunctionRef<void()> read);

/// Prints `what` and aborts unless `holds`.
void require(bool holds, const char* what);

/// The sentence of the last attempt's Error; empty if it succeeded.
const std::string& last_refusal();

}  // namespace heliograph::fuzz
