#include "plugin/process_life.h"

#include <c10/util/Exception.h>
#include <c10/util/Type.h>
#include <cxxabi.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <exception>

#include "hooks/collective_watch.h"
#include "hooks/left_open.h"
#include "hooks/loader_watch.h"
#include "hooks/optimizer_watch.h"
#include "hooks/reducer_watch.h"
#include "plugin/crash_signals.h"
#include "plugin/planted_fault.h"
#include "plugin/preloaded.h"
#include "plugin/run_info.h"
#include "plugin/session.h"

namespace ddpscope {
namespace {
std::terminate_handler previous_terminate = nullptr;
// What the settings ask for; read by the handler that runs last, when the session is gone.
std::atomic<int> wanted_exit_code{0};

void finish_session(int status, void*) {
  if (Session* session = Session::running()) {
    session->finish(status & 0xff);  // all that a parent process learns
    wanted_exit_code = session->exit_code();
  }
}

void set_exit_code(int status, void*) {
  const int code = wanted_exit_code.load();
  if (status != 0 || code == 0) return;
  std::fflush(nullptr);
  _exit(code);
}

// Registered before main, so that it runs after the program's own handlers and destructors.
__attribute__((constructor)) void on_load() {
  on_exit(set_exit_code, nullptr);
  keep_start_directory();
  prepare_fault_if_asked();
  install_optimizer_creation();
  install_loader_watch();
  watch_group_births();
  watch_reducers();
  discover_if_preloaded();
}

std::string current_exception_text() {
  try {
    if (std::current_exception() != nullptr) std::rethrow_exception(std::current_exception());
  } catch (const c10::Error& error) {
    return error.what_without_backtrace();
  } catch (const std::exception& error) {
    return error.what();
  } catch (...) {
    return "an exception that is no std::exception";
  }
  return "terminate without an exception";
}

UncaughtException current_exception() {
  constexpr std::size_t kMaxText = 8192;
  const std::type_info* type = abi::__cxa_current_exception_type();
  return {.type = type != nullptr ? c10::demangle(type->name()) : "",
          .text = current_exception_text().substr(0, kMaxText)};
}

void on_terminate() {
  // Entered once: a second thread that terminates, or a fault of ours here, goes straight on.
  static std::atomic<bool> entered{false};
  if (!entered.exchange(true)) {
    if (Session* session = Session::running()) {
      if (std::current_exception() != nullptr) tell_left_open();
      session->die(current_exception());
    }
  }
  if (previous_terminate != nullptr) previous_terminate();
  abort();
}

void leave_to_child() {
  if (Session* session = Session::running()) session->leave_to_child();
  Capture::set_active(nullptr);
}
}  // namespace

void watch_process_life() {
  on_exit(finish_session, nullptr);
  watch_signals([]() noexcept { return Session::position(); });
  previous_terminate = std::set_terminate(on_terminate);
  pthread_atfork(nullptr, nullptr, leave_to_child);
}

}  // namespace ddpscope
