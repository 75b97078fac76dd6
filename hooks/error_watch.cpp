#include "hooks/error_watch.h"

#include <string>

#include "hooks/capture.h"
#include "hooks/interposed.h"

namespace ddpscope {
namespace {
constexpr std::size_t kMaxText = 2000;
thread_local std::string last_text;

void note(const char* text) {
  as_guest("error", [text](Capture& capture) {
    last_text = std::string_view(text).substr(0, kMaxText);
    capture.put_large(ErrorEvent{
        .at = capture.marker().now(), .message = last_text, .module = ModuleCalls::innermost()});
  });
}

struct WithString;
struct WithText;
using InterposedString =
    Interposed<WithString, void(const char*, const char*, std::uint32_t, const std::string&)>;
using InterposedText =
    Interposed<WithText, void(const char*, const char*, std::uint32_t, const char*)>;

void on_check_string(const char* function, const char* file, std::uint32_t line,
                     const std::string& text) {
  note(text.c_str());
  InterposedString::original(function, file, line, text);
}

void on_check_text(const char* function, const char* file, std::uint32_t line, const char* text) {
  note(text);
  InterposedText::original(function, file, line, text);
}
}  // namespace

const std::string& last_error_text() noexcept { return last_text; }

void forget_error_text() noexcept { last_text.clear(); }

bool install_error_watch() noexcept {
  bool live = InterposedString::install(
      "_ZN3c106detail14torchCheckFailEPKcS2_jRK" DDPSCOPE_MANGLED_STRING, on_check_string);
  live &= InterposedText::install("_ZN3c106detail14torchCheckFailEPKcS2_jS2_", on_check_text);
  return live;
}

}  // namespace ddpscope
