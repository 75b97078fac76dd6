#include "hooks/error_watch.h"

#include <c10/core/GradMode.h>
#include <c10/util/Exception.h>
#include <c10/util/Type.h>

#include <stdexcept>
#include <string_view>
#include <typeinfo>

#include "hooks/capture.h"
#include "hooks/doing.h"
#include "hooks/interposed.h"
#include "hooks/loop_phase.h"
#include "hooks/mode_asked.h"
#include "hooks/model_discovery.h"
#include "hooks/per_thread.h"

namespace ddpscope {
namespace {
constexpr std::size_t kMaxText = 2000;
constexpr std::string_view kNoGraph = "does not require grad and does not have a grad_fn";

struct LastError {
  std::string text;
  const std::type_info* type = nullptr;
};
LastError& last() { return PerThread<LastError>::get(); }

void remember(const char* text) {
  last().text = std::string_view(text).substr(0, kMaxText);
  last().type = nullptr;
}

void tell(Capture& capture) {
  const ModuleId asked_mode = last_mode_asked();  // before trees are read, which ask each module
  attach_discovered(capture);                     // so that the place of the error has a name
  // Parameters may have been frozen in this step.
  const bool lacks_graph = last().text.find(kNoGraph) != std::string::npos;
  if (lacks_graph) capture.modules().look_again(capture, /*step_ended=*/false);
  capture.put_large(ErrorEvent{.at = capture.marker().now(),
                               .message = last().text,
                               .module = ModuleCalls::innermost(),
                               .phase = LoopPhase::now(),
                               .grad_mode = c10::GradMode::is_enabled(),
                               .asked_mode = asked_mode,
                               .stack = thrown_from(capture)});
}

/// `object` as an `Error`, if a handler of that type would catch it.
template <class Error>
const Error* as(const std::type_info& type, void* object) {
  if (!typeid(Error).__do_catch(&type, &object, /*outer=*/1)) return nullptr;
  return static_cast<const Error*>(object);
}

// Calls no virtual `what()`: that may be the program's own code.
void note_thrown(Capture& capture, const std::type_info& type, void* object) {
  if (const auto* error = as<c10::Error>(type, object)) {
    remember(error->what_without_backtrace());
    tell(capture);
  } else if (const auto* error = as<std::runtime_error>(type, object)) {
    remember(error->std::runtime_error::what());
  } else if (const auto* error = as<std::logic_error>(type, object)) {
    remember(error->std::logic_error::what());
  } else {
    last().text.clear();
    last().type = &type;
  }
}

struct Throw;
using InterposedThrow = Interposed<Throw, void(void*, std::type_info*, void (*)(void*))>;

// A program may fail before anything else of it was seen.
void on_throw(void* object, std::type_info* type, void (*destroy)(void*)) {
  if (Capture::active() == nullptr && is_discovering() &&
      as<c10::Error>(*type, object) != nullptr) {
    start_discovery_session();
  }
  as_guest("error", [&](Capture& capture) { note_thrown(capture, *type, object); });
  InterposedThrow::original(object, type, destroy);
}

void note_check(const char* text) {
  as_guest("error", [text](Capture& capture) {
    remember(text);
    tell(capture);
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
  note_check(text.c_str());
  InterposedString::original(function, file, line, text);
}

void on_check_text(const char* function, const char* file, std::uint32_t line, const char* text) {
  note_check(text);
  InterposedText::original(function, file, line, text);
}
}  // namespace

std::string last_error_text() {
  const LastError& error = last();
  return error.type == nullptr ? error.text : c10::demangle(error.type->name());
}

void forget_error_text() {
  last().text.clear();
  last().type = nullptr;
}

bool install_throw_watch() noexcept { return InterposedThrow::install("__cxa_throw", on_throw); }

bool install_check_watch() noexcept {
  bool live = InterposedString::install(
      "_ZN3c106detail14torchCheckFailEPKcS2_jRK" DDPSCOPE_MANGLED_STRING, on_check_string);
  live &= InterposedText::install("_ZN3c106detail14torchCheckFailEPKcS2_jS2_", on_check_text);
  return live;
}

}  // namespace ddpscope
