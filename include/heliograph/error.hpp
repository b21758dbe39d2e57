#pragma once

#include <stdexcept>
#include <string>

namespace heliograph {

/// The kind of an error; its value is the exit code of the command.
enum class ErrorCode : int {
  usage = 2,          ///< A flag, an option or a combination of options is not valid.
  bad_input = 3,      ///< A file or array is missing, damaged or does not fit.
  resource = 4,       ///< Memory, disk space or the range of an index type is exhausted.
  peer_lost = 5,      ///< Another rank failed, vanished or missed a deadline.
  numeric = 6,        ///< Activations, gradients or the loss became NaN or Inf in training.
  mismatch = 7,       ///< Inputs do not belong together.
  interrupted = 130,  ///< The caller asked to stop (`StopFlag`).
};

/// The exception that the library throws: a code and one sentence.
class Error : public std::runtime_error {
 public:
  Error(ErrorCode code, const std::string& sentence) : std::runtime_error(sentence), code_(code) {}
  ErrorCode code() const noexcept { return code_; }

 private:
  ErrorCode code_;
};

}  // namespace heliograph
