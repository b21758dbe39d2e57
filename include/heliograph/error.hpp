#pragma once

#include <stdexcept>
#include <string>

namespace heliograph {

/// What went wrong, as the exit code that the command gives for it.
enum class ErrorCode : int {
  usage = 2,          ///< A flag, an option or a combination of options that cannot be honoured.
  bad_input = 3,      ///< A file or array that is missing, damaged or does not fit.
  resource = 4,       ///< Out of memory, of disk, or of a size that an index type can hold.
  peer_lost = 5,      ///< Another rank failed, vanished or missed a deadline.
  numeric = 6,        ///< NaN or Inf in activations, gradients or loss while training.
  mismatch = 7,       ///< Files that do not belong together.
  interrupted = 130,  ///< The caller asked to stop (`StopFlag`).
};

/// The only exception type that the library throws on purpose: a code and one sentence.
class Error : public std::runtime_error {
 public:
  Error(ErrorCode code, const std::string& sentence) : std::runtime_error(sentence), code_(code) {}
  ErrorCode code() const noexcept { return code_; }

 private:
  ErrorCode code_;
};

}  // namespace heliograph
