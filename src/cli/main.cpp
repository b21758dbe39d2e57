#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>
#include <system_error>
#include <vector>

#include "cli/command.hpp"
#include "cli/foreign_flags.hpp"
#include "cli/help_formatter.hpp"
#include "cli/signals.hpp"
#include "cli/text.hpp"
#include "heliograph/error.hpp"
#include "heliograph/train.hpp"
#include "heliograph/version.hpp"
#include "train/options/not_built.hpp"
#include "train/options/parse.hpp"
#include "train/processes.hpp"
#include "train/run/output_file.hpp"

namespace heliograph::cli {
namespace {

constexpr int kUnexpectedFailure = 1;

using Commands = std::vector<Command>;

Commands all_commands() {
  return {train_command(),    eval_command(),      export_command(), import_command(),
          generate_command(), partition_command(), info_command()};
}

void declare(CLI::App& app, const Commands& commands) {
  app.formatter(help_formatter("heliograph COMMAND [options]"));
  app.set_help_flag("--help,-h", "Print this help.");
  app.set_version_flag("--version", version(), "Print the version.");
  app.allow_extras();
  for (const Command& command : commands) {
    CLI::App* sub = app.add_subcommand(command.name, command.description);
    sub->formatter(help_formatter(fmt::format("heliograph {}{}", command.name, command.usage)));
    sub->set_help_flag("--help,-h", "Print this help.");
    sub->footer(command.footer);
    sub->allow_extras();
    sub->group("Commands");
    command.declare(*sub);
  }
  std::string footer = "\"heliograph COMMAND --help\" explains a command.\n\nNot built yet:";
  for (const NotBuilt& entry : kNotBuilt) {
    footer += fmt::format("\n  {:<24}  {}", entry.name, entry.purpose);
  }
  app.footer(footer);
}

[[noreturn]] void refuse_command(const std::string& word, const Commands& commands) {
  if (word.starts_with("-")) {
    throw Error(ErrorCode::usage,
                fmt::format("{} stands before the command; the command comes first, as in "
                            "\"heliograph train --data PATH\"",
                            word));
  }
  refuse_not_built("heliograph " + word);
  std::vector<std::string> names;
  for (const Command& command : commands) names.push_back(command.name);
  const std::string near = nearest_spelling(word, names);
  throw Error(ErrorCode::usage,
              fmt::format("unknown command \"{}\"; {}", word,
                          near.empty() ? fmt::format("there are {}", listed(names, "and"))
                                       : fmt::format("did you mean \"{}\"?", near)));
}

[[noreturn]] void refuse_word(const std::string& word, const CLI::App& app,
                              const std::string& command, const Commands& commands) {
  if (!word.starts_with("-")) {
    std::string usual = "generate --out DIR";
    for (const char* flag : {"checkpoint", "data"}) {
      if (app.get_option_no_throw("--" + std::string(flag)) == nullptr) continue;
      usual = fmt::format("{} --{} PATH", command, flag);
      break;
    }
    throw Error(ErrorCode::usage,
                fmt::format("\"{}\" is not expected here: values follow their flag, as in "
                            "\"heliograph {}\"",
                            word, usual));
  }
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    names.insert(names.end(), option->get_lnames().begin(), option->get_lnames().end());
  }
  const std::string flag = word.substr(0, word.find('='));
  const std::string name = flag.substr(std::min(flag.find_first_not_of('-'), flag.size()));
  std::vector<std::string> owners;
  for (const Command& other : commands) {
    const CLI::App* sub = app.get_parent()->get_subcommand(other.name);
    if (sub->get_option_no_throw("--" + name) != nullptr) owners.push_back(other.name);
  }
  std::string hint;
  if (const char* answer = foreign_flag_answer(name)) {
    hint = fmt::format(": {}", answer);
  } else if (std::ranges::find(names, name) != names.end()) {
    hint = fmt::format("; did you mean --{}?", name);
  } else if (!owners.empty()) {
    hint = fmt::format(": it is a flag of heliograph {}", listed(owners));
  } else if (const std::string near = nearest_spelling(name, names); !near.empty()) {
    hint = fmt::format("; did you mean --{}?", near);
  }
  throw Error(ErrorCode::usage, fmt::format("unknown flag {}{} (heliograph {} --help lists all)",
                                            flag, hint, command));
}

/// The message of a command line that CLI11 cannot parse.
std::string parse_message(const CLI::ParseError& error) {
  const std::string text = error.what();
  if (dynamic_cast<const CLI::ArgumentMismatch*>(&error) != nullptr) {
    return fmt::format("{} needs a value", text.substr(0, text.find(':')));
  }
  return text;
}

/// `help [COMMAND]` and `version` as the flags that they mean.
std::vector<std::string> spelled_as_flags(std::vector<std::string> words) {
  if (words.empty() || (words[0] != "help" && words[0] != "version")) return words;
  words[0].insert(0, "--");
  std::rotate(words.begin(), words.begin() + 1, words.end());
  return words;
}

int dispatch(const std::vector<std::string>& given) {
  const std::vector<std::string> words = spelled_as_flags(given);
  const Commands commands = all_commands();
  CLI::App app(
      "heliograph trains graph neural networks on whole graphs, split over K ranks\n"
      "that exchange as little as one bit per value.");
  declare(app, commands);
  try {
    app.parse(std::vector<std::string>(words.rbegin(), words.rend()));
  } catch (const CLI::Success& success) {
    return app.exit(success);
  } catch (const CLI::ParseError& error) {
    throw Error(ErrorCode::usage, parse_message(error));
  }
  for (const Command& command : commands) {
    const CLI::App* sub = app.get_subcommand(command.name);
    if (!sub->parsed()) continue;
    if (app.remaining_size() > 0)
      refuse_word(app.remaining().front(), *sub, command.name, commands);
    if (sub->remaining_size() > 0)
      refuse_word(sub->remaining().front(), *sub, command.name, commands);
    return command.run(words);
  }
  if (app.remaining_size() > 0) refuse_command(app.remaining().front(), commands);
  const std::string help = app.help();
  std::fwrite(help.data(), 1, help.size(), stderr);
  return static_cast<int>(ErrorCode::usage);
}

int complain(const char* sentence, int code) {
  std::fprintf(stderr, "heliograph: error: %s\n", sentence);
  return code;
}

int guarded(const std::vector<std::string>& words) {
  const int out_of_resources = static_cast<int>(ErrorCode::resource);
  const bool trains = !words.empty() && (words[0] == "train" || words[0] == "eval");
  std::optional<SignalWatch> watch;  // train and eval make their own.
  if (!trains) {
    const auto stop = [](int signal) {
      std::string written;
      for (const auto& path : abandon_files(true)) {
        written += (written.empty() ? "" : ", ") + path.string();
      }
      if (written.empty()) end_at_once(signal);
      write_past_locks(fmt::format("heliograph: stopped by {}; written before: {}\n",
                                   signal_name(signal), written));
      _exit(128 + signal);
    };
    watch.emplace(SignalActions{stop, {}, [] {}, {}});
  }
  try {
    const int code = dispatch(words);
    // Output may still be in a buffer that a full disk does not take.
    if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) {
      return complain("standard output cannot be written", out_of_resources);
    }
    return code;
  } catch (const Error& error) {
    complain(error.what(), static_cast<int>(error.code()));
    if (trains) fail_waiting_processes(error);
    return static_cast<int>(error.code());
  } catch (const std::bad_alloc&) {
    return complain("out of memory", out_of_resources);
  } catch (const std::length_error&) {
    return complain("a size does not fit into memory", out_of_resources);
  } catch (const std::filesystem::filesystem_error& error) {
    const std::string what = error.code().message();
    return complain(fmt::format("cannot use {}: {}", error.path1().string(), what).c_str(),
                    out_of_resources);
  } catch (const std::system_error& error) {
    return complain(error.what(), out_of_resources);
  } catch (const std::exception& error) {
    return complain(fmt::format("unexpected: {}", error.what()).c_str(), kUnexpectedFailure);
  }
}

}  // namespace
}  // namespace heliograph::cli

int main(int argc, char** argv) {
  heliograph::cli::end_at_signals();
  std::signal(SIGXFSZ, SIG_IGN);  // Writing beyond a file size limit then fails with an error.
  heliograph::name_options_as_flags();
  const int code = heliograph::cli::guarded(std::vector<std::string>(argv + 1, argv + argc));
  if (heliograph::devices_hang()) {
    // Destructors and exit handlers may wait forever for messages of the device.
    std::fflush(nullptr);
    std::_Exit(code);
  }
  return code;
}
