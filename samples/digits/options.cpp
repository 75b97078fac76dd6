#include "samples/digits/options.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <stdexcept>
#include <string>

namespace digits {
namespace {

constexpr std::array<std::string_view, 24> kBugNames = {"none",
                                                        "unregistered-blocks",
                                                        "unregistered-tensor",
                                                        "unused-head",
                                                        "uncalled-layer",
                                                        "dropped-result",
                                                        "no-grad-trunk",
                                                        "replaced-head",
                                                        "forgotten-group",
                                                        "empty-optimizer",
                                                        "no-zero-grad",
                                                        "half-zero-grad",
                                                        "tied-twice",
                                                        "reader-throws",
                                                        "listed-gradients",
                                                        "unsynced-parameters",
                                                        "unsynced-buffers",
                                                        "order-by-rank",
                                                        "rate-by-rank",
                                                        "head-by-rank",
                                                        "skipped-batch",
                                                        "early-end",
                                                        "same-order",
                                                        "fixed-replicas"};

std::int64_t number(std::string_view name, std::string_view text, std::int64_t least) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < least) {
    throw std::runtime_error(std::string(name) + " takes a whole number of at least " +
                             std::to_string(least) + ", not \"" + std::string(text) + "\"");
  }
  return value;
}

Bug bug_named(std::string_view name) {
  const auto found = std::find(kBugNames.begin(), kBugNames.end(), name);
  if (found == kBugNames.end()) {
    throw std::runtime_error("no bug is named \"" + std::string(name) +
                             "\"; --list-bugs names them");
  }
  return static_cast<Bug>(found - kBugNames.begin());
}

bool set_flag(Options& options, std::string_view name) {
  if (name == "--no-diagnostics") {
    options.diagnostics = false;
  } else if (name == "--list-bugs") {
    options.list_bugs = true;
  } else if (name == "--help") {
    options.help = true;
  } else {
    return false;
  }
  return true;
}

bool set_value(Options& options, std::string_view name, std::string_view value) {
  if (name == "--bug") {
    options.bug = bug_named(value);
  } else if (name == "--data") {
    options.data = value;
  } else if (name == "--dump") {
    options.dump = value;
  } else if (name == "--epochs") {
    options.epochs = number(name, value, 1);
  } else if (name == "--steps") {
    options.max_steps = number(name, value, 1);
  } else if (name == "--batch") {
    options.batch = number(name, value, 2);
  } else if (name == "--seed") {
    options.seed = static_cast<std::uint64_t>(number(name, value, 0));
  } else if (name == "--timeout") {
    options.timeout_s = number(name, value, 1);
  } else {
    return false;
  }
  return true;
}

}  // namespace

Options parse(const std::vector<std::string_view>& words) {
  Options options;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (set_flag(options, words[i])) continue;
    const bool has_value = i + 1 < words.size();
    if (!has_value || !set_value(options, words[i], words[i + 1])) {
      throw std::runtime_error("cannot use the argument \"" + std::string(words[i]) +
                               "\"; --help shows all");
    }
    ++i;
  }
  return options;
}

std::vector<std::string_view> bug_names() { return {kBugNames.begin(), kBugNames.end()}; }

std::string_view usage() {
  return R"(digits: trains a small convolutional network on images of digits

  --data DIR         folder with train-images-idx3-ubyte and train-labels-idx1-ubyte (data)
  --epochs N         passes over the data (2)
  --steps N          stop after N optimizer steps
  --batch N          images per step and process (32)
  --seed N           seed of the initial weights (1)
  --timeout S        seconds for which processes wait for each other (60)
  --bug NAME         plant one mistake; --list-bugs names them
  --no-diagnostics   train without ddpscope
  --dump FILE        write losses, weights, optimizer and generator state to FILE.<rank>

RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT make it one of several processes.
)";
}

}  // namespace digits
