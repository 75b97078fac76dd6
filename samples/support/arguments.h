#pragma once

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <filesystem>
#include <iostream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace samples {

/// What a sample is told on its command line.
struct Arguments {
  std::string bug = "none";  ///< the mistake to plant; each is one line marked `// BUG`
  std::int64_t steps = 0;
  std::uint64_t seed = 1;
  bool diagnostics = true;
  std::string way;                           ///< in which the processes share the work
  std::string device = "cpu";                ///< where to train, as torch::Device spells it
  std::filesystem::path dump;                ///< empty writes none
  std::vector<std::filesystem::path> texts;  ///< files and folders
  std::filesystem::path data = "data";       ///< folder of a data set
  std::filesystem::path model;               ///< file of a trained network; empty keeps none
  std::filesystem::path out;                 ///< folder for what is written
  bool only_lists = false;                   ///< --list-bugs was answered

  bool has(std::string_view name) const { return bug == name; }
};

using BugNames = std::vector<std::string_view>;

inline std::int64_t whole_number(std::string_view name, std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 1) {
    throw std::runtime_error(std::string(name) + " takes a whole number of at least 1, not \"" +
                             std::string(text) + "\"");
  }
  return value;
}

inline bool set_value(Arguments& arguments, std::string_view name, std::string_view value) {
  if (name == "--bug") {
    arguments.bug = value;
  } else if (name == "--steps") {
    arguments.steps = whole_number(name, value);
  } else if (name == "--seed") {
    arguments.seed = static_cast<std::uint64_t>(whole_number(name, value));
  } else if (name == "--way") {
    arguments.way = value;
  } else if (name == "--device") {
    arguments.device = value;
  } else if (name == "--dump") {
    arguments.dump = value;
  } else if (name == "--text") {
    arguments.texts.emplace_back(value);
  } else if (name == "--data") {
    arguments.data = value;
  } else if (name == "--model") {
    arguments.model = value;
  } else if (name == "--out") {
    arguments.out = value;
  } else {
    return false;
  }
  return true;
}

/// Reads `[--bug NAME] [--steps N] [--seed N] [--way NAME] [--device NAME] [--dump FILE]
/// [--text PATH]... [--data DIR] [--model FILE] [--out DIR] [--no-diagnostics] [--list-bugs]` into
/// `arguments`, which hold the defaults.
/// @throws std::runtime_error naming the argument that cannot be used.
inline Arguments parse(int argc, char** argv, const BugNames& bugs, Arguments arguments) {
  const std::vector<std::string_view> words(argv + 1, argv + argc);
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (words[i] == "--list-bugs") {
      std::cout << "none\n";
      for (const std::string_view bug : bugs) std::cout << bug << "\n";
      arguments.only_lists = true;
    } else if (words[i] == "--no-diagnostics") {
      arguments.diagnostics = false;
    } else if (i + 1 < words.size() && set_value(arguments, words[i], words[i + 1])) {
      ++i;
    } else {
      throw std::runtime_error("cannot use the argument \"" + std::string(words[i]) + "\"");
    }
  }
  if (!arguments.has("none") && std::find(bugs.begin(), bugs.end(), arguments.bug) == bugs.end()) {
    throw std::runtime_error("no bug is named \"" + arguments.bug + "\"; --list-bugs names them");
  }
  return arguments;
}

}  // namespace samples
