#include <fmt/format.h>

#include <utility>

#include "cli/command.hpp"
#include "heliograph/error.hpp"

namespace heliograph::cli {
namespace {

class LaterCommand : public Command {
 public:
  LaterCommand(std::string name, std::string purpose)
      : name_(std::move(name)), purpose_(std::move(purpose)) {}

  std::string name() const override { return name_; }
  std::string description() const override { return fmt::format("Not built yet: {}.", purpose_); }
  std::string usage() const override { return " (not built yet)"; }
  bool built() const override { return false; }
  void declare(CLI::App&) override {}

  int run(const std::vector<std::string>&) override {
    throw Error(ErrorCode::usage,
                fmt::format("\"heliograph {}\" ({}) is not built yet", name_, purpose_));
  }

 private:
  std::string name_;
  std::string purpose_;
};

}  // namespace

std::unique_ptr<Command> make_later_command(std::string name, std::string purpose) {
  return std::make_unique<LaterCommand>(std::move(name), std::move(purpose));
}

}  // namespace heliograph::cli
