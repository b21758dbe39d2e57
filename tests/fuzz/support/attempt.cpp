#include "fuzz/support/attempt.hpp"

#include <cxxabi.h>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <typeinfo>

#include "heliograph/error.hpp"

namespace heliograph::fuzz {
namespace {

std::string refusal;

bool is_known(ErrorCode code) {
  switch (code) {
    case ErrorCode::usage:
    case ErrorCode::bad_input:
    case ErrorCode::resource:
    case ErrorCode::peer_lost:
    case ErrorCode::numeric:
    case ErrorCode::mismatch:
    case ErrorCode::interrupted:
      return true;
  }
  return false;
}

[[noreturn]] void report(const char* what, const char* text) {
  std::fprintf(stderr, "finding: %s: %s\n", what, text);
  std::abort();
}

}  // namespace

void attempt(FunctionRef<void()> read) {
  refusal.clear();
  try {
    read();
  } catch (const Error& error) {
    refusal = error.what();
    require(is_known(error.code()), "an error of an unknown code");
    require(!refusal.empty(), "an error without a sentence");
  } catch (const std::exception& error) {
    int status = 0;
    const char* const name = abi::__cxa_demangle(typeid(error).name(), nullptr, nullptr, &status);
    report(name != nullptr ? name : typeid(error).name(), error.what());
  }
}

void require(bool holds, const char* what) {
  if (!holds) report("does not hold", what);
}

const std::string& last_refusal() { return refusal; }

}  // namespace heliograph::fuzz
