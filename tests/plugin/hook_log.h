#pragma once

// What hooks told, as lines of text.
#include <ddpscope/hooks.h>

#include <mutex>
#include <string>
#include <vector>

namespace ddpscope::test {

class HookLog {
 public:
  void add(std::string line) {
    const std::lock_guard lock(mutex_);
    lines_.push_back(std::move(line));
  }
  std::vector<std::string> take() {
    const std::lock_guard lock(mutex_);
    return std::exchange(lines_, {});
  }
  std::size_t size() {
    const std::lock_guard lock(mutex_);
    return lines_.size();
  }

  ForwardHook before(const std::string& name = "") {
    return [this, name](const ForwardCall& call) { add(name + "<" + std::string(call.path)); };
  }
  ForwardHook after(const std::string& name = "") {
    return [this, name](const ForwardCall& call) { add(name + ">" + std::string(call.path)); };
  }
  ModuleHooks both() { return {.before = before(), .after = after()}; }

 private:
  std::mutex mutex_;
  std::vector<std::string> lines_;
};

using Lines = std::vector<std::string>;

}  // namespace ddpscope::test
