#include "cli/help_formatter.hpp"

#include <fmt/format.h>

#include <utility>
#include <vector>

#include "cli/text.hpp"

namespace heliograph::cli {
namespace {

constexpr std::size_t kPageWidth = 98;
constexpr std::size_t kTextColumn = 28;

std::string help_entry(const std::string& left, const std::string& right) {
  std::string text = "  " + left;
  if (text.size() + 1 > kTextColumn) {
    text += '\n' + std::string(kTextColumn, ' ');
  } else {
    text.resize(kTextColumn, ' ');
  }
  const std::string separator = '\n' + std::string(kTextColumn, ' ');
  return text + fmt::format("{}\n", fmt::join(wrapped(right, kPageWidth - kTextColumn), separator));
}

class HelpFormatter : public CLI::Formatter {
 public:
  explicit HelpFormatter(std::string usage) : usage_(std::move(usage)) {}

  std::string make_usage(const CLI::App*, std::string) const override {
    return "\nUsage: " + usage_ + "\n\n";
  }

  std::string make_group(std::string group, bool is_positional,
                         std::vector<const CLI::Option*> options) const override {
    std::string text = group + ":\n";
    for (const CLI::Option* option : options) text += make_option(option, is_positional);
    return text;
  }

  std::string make_option(const CLI::Option* option, bool) const override {
    const bool negatable = option->get_expected_max() == 0 && option->get_lnames().size() > 1;
    std::string left =
        negatable ? "--" + option->get_lnames().front() : option->get_name(false, true);
    if (option->get_type_size() != 0 && !option->get_type_name().empty()) {
      left += " " + option->get_type_name();
    }
    std::string right = option->get_description();
    if (!option->get_default_str().empty()) right += " [" + option->get_default_str() + "]";
    return help_entry(left, right);
  }

  std::string make_subcommand(const CLI::App* app) const override {
    return help_entry(app->get_name(), app->get_description());
  }

 private:
  std::string usage_;
};

}  // namespace

std::shared_ptr<CLI::Formatter> help_formatter(std::string usage) {
  return std::make_shared<HelpFormatter>(std::move(usage));
}

}  // namespace heliograph::cli
