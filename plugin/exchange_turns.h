#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>

#include "exchange/ring_mirror.h"
#include "plugin/exchange_state.h"

namespace ddpscope {

/// What follows the reason for which an exchange ended.
inline constexpr char kInsteadOfExchange[] =
    ". Ranks are compared by the files of their report folders; training continues.";

/// Unwinds a thread that was left behind in a call.
struct LeftBehind {};

/// What the thread of an exchange does, each second.
class ExchangeTurns {
 public:
  ExchangeTurns(std::shared_ptr<StoreExchange::State> state, StoreOpener open);

  /// Until the exchange is to end. Throws what the store throws.
  void run();
  void close();
  /// Closing it would run code of a library that may be gone by now.
  void leave_store() { static_cast<void>(store_.release()); }

 private:
  template <class Work>
  void call(Work&& work);
  bool has(const std::string& key);
  void miss_store();
  bool is_in_folder(std::int64_t rank) const;
  // Each returns whether it goes on at once.
  bool send();
  bool take_pieces();
  void take_stock();
  void look_around();
  void take(std::int64_t rank, const std::string& piece);
  void show(std::int64_t rank, const RingMirror& mirror);

  std::shared_ptr<StoreExchange::State> state_;
  const StoreExchange::Options& options_;
  StoreOpener open_;
  std::unique_ptr<SharedStore> store_;
  std::int64_t begun_ns_;
  // Of a rank that sends.
  RingPieces pieces_;
  std::int64_t next_step_ = 1;
  std::int64_t sent_ns_ = 0;
  // Of the lowest rank.
  std::map<std::int64_t, RingMirror> mirrors_;
  std::set<std::int64_t> near_;  // whose rings lie in its folder
  std::int64_t look_around_ns_ = 0;
};

}  // namespace ddpscope
