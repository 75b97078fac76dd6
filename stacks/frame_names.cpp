#include "stacks/frame_names.h"

#include <cxxabi.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <memory>

namespace ddpscope {
namespace {

constexpr std::size_t kShortArguments = 24;
constexpr std::string_view kAnonymous = "(anonymous namespace)";
constexpr std::string_view kLibraries[] = {
    "libtorch",   "libc10",   "libstdc++",  "libc++",    "libc.so",    "libc-",   "libm.so",
    "libpthread", "libgcc_s", "ld-linux",   "libdl.so",  "librt.so",   "libgomp", "libiomp",
    "libomp",     "libcuda",  "libcudart",  "libcublas", "libcudnn",   "libnccl", "libnvrtc",
    "libmkl",     "libgloo",  "libcaffe2_", "libcupti",  "linux-vdso", "libasan", "libtsan"};
constexpr std::string_view kHeaders[] = {"/include/c++/",   "/usr/include/",   "/usr/lib/",
                                         "/include/ATen/",  "/include/torch/", "/include/c10/",
                                         "/include/caffe2/"};
constexpr std::string_view kNamespaces[] = {
    "std::",   "__gnu_cxx::",  "__cxxabiv1::", "at::",         "c10::",
    "torch::", "caffe2::",     "c10d::",       "gloo::",       "__libc_",
    "_start",  "start_thread", "__clone",      "clone",        "__static_init",
    "_dl_",    "__cxa_",       "_Unwind_",     "operator new", "operator delete"};

std::string_view base_name(std::string_view path) {
  return path.substr(path.rfind('/') == std::string_view::npos ? 0 : path.rfind('/') + 1);
}

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

/// The length of the bracket that begins `text`, with what is in it.
std::size_t bracket(std::string_view text) {
  const char close = text[0] == '<' ? '>' : text[0] == '(' ? ')' : '}';
  int depth = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    depth += text[i] == text[0] ? 1 : 0;
    const bool arrow = close == '>' && i > 0 && text[i - 1] == '-';
    if (text[i] == close && !arrow && --depth == 0) return i + 1;
  }
  return text.size();
}

/// Copies the name of a demangled function and leaves out what stands around it.
class Shortener {
 public:
  explicit Shortener(std::string_view text) : left_(text) {}

  std::string run() {
    while (!left_.empty()) {
      if (!take_operator() && !take_bracket() && !take_space()) take(1);
    }
    return kept_;
  }

 private:
  void take(std::size_t count) {
    kept_ += left_.substr(0, count);
    left_.remove_prefix(std::min(count, left_.size()));
  }
  bool take_operator() {
    constexpr std::string_view kOperator = "operator";
    if (!left_.starts_with(kOperator) || (!kept_.empty() && is_word(kept_.back()))) return false;
    if (left_.size() > kOperator.size() && is_word(left_[kOperator.size()])) return false;
    take(kOperator.size());
    if (left_.starts_with("()")) {
      take(2);
    } else if (left_.starts_with(' ')) {
      take(left_.find('('));  // a conversion, new or delete
    } else {
      take(std::min(left_.find_first_not_of("<>=!+-*/%^&|~[],"), left_.size()));
    }
    if (left_.starts_with(' ')) left_.remove_prefix(1);
    return true;
  }
  bool take_bracket() {
    if (left_.starts_with(kAnonymous)) {
      take(kAnonymous.size());
      return true;
    }
    if (left_[0] != '<' && left_[0] != '(' && left_[0] != '{') return false;
    const std::string_view whole = left_.substr(0, bracket(left_));
    if (whole[0] == '<') {
      const bool brief = whole.size() <= kShortArguments && whole.rfind('<') == 0;
      kept_ += brief ? whole : std::string_view("<…>");
    } else if (whole.starts_with("{lambda(")) {
      kept_ += "{lambda";
      kept_ += whole.substr(std::min(whole.rfind('#'), whole.size() - 1));
    } else if (whole[0] == '{') {
      kept_ += whole;
    }
    left_.remove_prefix(whole.size());
    return true;
  }
  bool take_space() {
    if (left_.starts_with("[abi:")) {
      left_.remove_prefix(std::min(left_.find(']'), left_.size() - 1) + 1);
      return true;
    }
    if (left_[0] != ' ') return false;
    if (left_.starts_with(" const")) {
      left_.remove_prefix(6);
    } else if (left_.starts_with(" [")) {  // which clone of the compiler's it is
      left_ = {};
    } else {
      kept_.clear();  // that was the type of the result
      left_.remove_prefix(1);
    }
    return true;
  }

  std::string_view left_;
  std::string kept_;
};

}  // namespace

std::string demangle(const std::string& name) {
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> text(
      abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &status), std::free);
  return status == 0 && text != nullptr ? std::string(text.get()) : name;
}

std::string short_function(std::string_view demangled) {
  std::string kept = Shortener(demangled).run();
  return kept.empty() ? std::string(demangled) : kept;
}

bool is_own(std::string_view module) { return base_name(module).starts_with("libddpscope"); }

bool is_library(std::string_view module, std::string_view file, std::string_view function) {
  const std::string_view name = base_name(module);
  const auto begins = [&](std::string_view prefix) { return name.starts_with(prefix); };
  if (std::ranges::any_of(kLibraries, begins)) return true;
  if (!file.empty()) {
    return std::ranges::any_of(
        kHeaders, [&](std::string_view part) { return file.find(part) != std::string_view::npos; });
  }
  return std::ranges::any_of(kNamespaces,
                             [&](std::string_view prefix) { return function.starts_with(prefix); });
}

const Frame* user_frame(const Site& site) {
  const auto found = std::ranges::find(site.frames, false, &Frame::library);
  return found == site.frames.end() ? nullptr : &*found;
}

}  // namespace ddpscope
