#include "plugin/store_exchange.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <thread>
#include <utility>

#include "config/text.h"
#include "model/clock.h"
#include "plugin/background_thread.h"
#include "plugin/exchange_state.h"
#include "plugin/exchange_turns.h"

namespace ddpscope {
namespace {
constexpr std::int64_t kMsInExchangeNs = 1'000'000;

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

/// Calls `work`. What it throws becomes the note; false where the thread was left behind.
template <class Work>
bool survive(StoreExchange::State& state, Work&& work) {
  try {
    work();
  } catch (const LeftBehind&) {
    return false;
  } catch (const StoreClosed&) {
  } catch (const std::exception& error) {
    if (state.left_behind) return false;  // its text may be made by a library that is gone
    state.say("the exchange between ranks has ended: \"" + escaped(first_line(error.what())) +
              "\"" + kInsteadOfExchange);
  } catch (...) {
    state.say(std::string("the exchange between ranks has failed") + kInsteadOfExchange);
  }
  return !state.left_behind;
}

void exchange_rings(const std::shared_ptr<StoreExchange::State>& state, StoreOpener open) {
  become_background("ddpscope-ranks");
  survive(*state, [&] {
    ExchangeTurns turns(state, std::move(open));
    const bool is_ours = survive(*state, [&] { turns.run(); });
    if (!is_ours || !survive(*state, [&] { turns.close(); })) turns.leave_store();
  });
  const std::lock_guard lock(state->mutex);
  state->has_ended = true;
  state->ended.notify_all();
}
}  // namespace

StoreExchange::StoreExchange() : state_(std::make_shared<State>()) {}
StoreExchange::~StoreExchange() { stop(); }

bool StoreExchange::start(const Options& options, StoreOpener open) noexcept {
  try {
    {
      const std::lock_guard lock(state_->mutex);
      if (std::exchange(state_->has_started, true)) return false;
      state_->options = options;
    }
    std::thread([state = state_, open = std::move(open)]() mutable {
      exchange_rings(state, std::move(open));
    }).detach();
  } catch (...) {  // no thread to be had: ranks are compared by their files
    const std::lock_guard lock(state_->mutex);
    state_->has_ended = true;
  }
  return true;
}

bool StoreExchange::is_live() const noexcept {
  const std::lock_guard lock(state_->mutex);
  return state_->is_live();
}

bool StoreExchange::is_heard() const noexcept { return state_->is_heard && is_live(); }

std::vector<RingImage> StoreExchange::images() const {
  const std::lock_guard lock(state_->mutex);
  std::vector<RingImage> images;
  if (!state_->is_live()) return images;
  for (const auto& [rank, file] : state_->images) images.push_back({.rank = rank, .file = file});
  return images;
}

std::string StoreExchange::trouble(std::int64_t now_ns) {
  const std::int64_t since = state_->call_since_ns;
  const std::lock_guard lock(state_->mutex);
  State& state = *state_;
  if (since != 0 && now_ns - since > state.options.timeout_ms * kMsInExchangeNs) {
    state.left_behind = true;
    if (state.note.empty()) {
      state.note = "the exchange between ranks has ended: its store did not answer within " +
                   std::to_string(state.options.timeout_ms) + " ms" + kInsteadOfExchange;
    }
  }
  if (state.note.empty() || std::exchange(state.told, true)) return {};
  return state.note;
}

void StoreExchange::stop() noexcept {
  std::unique_lock lock(state_->mutex);
  state_->stops = true;
  state_->wake.notify_all();
  if (!state_->has_started || state_->has_ended) return;
  const std::int64_t now_ns = steady_ns();
  const std::int64_t since = state_->call_since_ns;
  const std::int64_t end_ns =
      (since == 0 ? now_ns : since) + state_->options.timeout_ms * kMsInExchangeNs;
  const std::chrono::nanoseconds left(std::max<std::int64_t>(end_ns - now_ns, 0));
  if (state_->ended.wait_for(lock, left, [this] { return state_->has_ended; })) return;
  state_->left_behind = true;
}

}  // namespace ddpscope
