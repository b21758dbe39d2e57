#include "cli/help_formatter.hpp"

#include <fmt/format.h>

#include <utility>
#include <vector>

#include "cli/text.hpp"

namespace heliograph::cli {
namespace {

constexpr std::size_t page_width = 98;
constexpr std::size_t text_column = 28;

std::string entry(const std::string& left, const std::string& right) {
  std::string text = "  " + left;
  if (text.size() + 1 > text_column) {
    text += '\n' + std::string(text_column, ' ');
  } else {
    text.resize(text_column, ' ');
  }
  const std::string separator = '\n' + std::string(text_column, ' ');
  return text + fmt::format("{}\n", fmt::join(wrapped(right, page_width - text_column), separator));
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
    std::string left = option->get_name(false, true);
    if (option->get_type_size() != 0 && !option->get_type_name().empty()) {
      left += " " + option->get_type_name();
    }
    std::string right = option->get_description();
    if (!option->get_default_str().empty()) right += " [" + option->get_default_str() + "]";
    return entry(left, right);
  }

  std::string make_subcommand(const CLI::App* app) const override {
    return entry(app->get_name(), app->get_description());
  }

 private:
  std::string usage_;
};

}  // namespace

std::shared_ptr<CLI::Formatter> help_formatter(std::string usage) {
  return std::make_shared<HelpFormatter>(std::move(usage));
}

}  // namespace heliograph::cli
