#include "plugin/exchange_turns.h"

#include <chrono>
#include <utility>

#include "config/text.h"
#include "exchange/ring_set.h"
#include "exchange/ring_steps.h"
#include "model/clock.h"

namespace ddpscope {
namespace {
using std::chrono::milliseconds;
constexpr auto kTurn = milliseconds(1000);
constexpr auto kTurnInStock = milliseconds(50);  // more of one stock follows
constexpr std::int64_t kMsInNs = 1'000'000;
constexpr std::int64_t kLookAroundNs = 10'000 * kMsInNs;
constexpr std::int64_t kUnheardNs = 30'000 * kMsInNs;
constexpr std::int64_t kTimeoutsWithoutStore = 6;

std::string store_key_of(std::int64_t rank) { return "ddpscope/ring/" + std::to_string(rank); }

std::string ring_path(const StoreExchange::Options& options, std::int64_t rank) {
  return options.dir + "/rank-" + std::to_string(rank) + ".ring";
}
}  // namespace

ExchangeTurns::ExchangeTurns(std::shared_ptr<StoreExchange::State> state, StoreOpener open)
    : state_(std::move(state)),
      options_(state_->options),
      open_(std::move(open)),
      begun_ns_(steady_ns()),
      pieces_(ring_path(options_, options_.rank)) {}

template <class Work>
void ExchangeTurns::call(Work&& work) {
  struct Timed {
    explicit Timed(StoreExchange::State& of) : state(of) { state.call_since_ns = steady_ns(); }
    ~Timed() { state.call_since_ns = 0; }
    StoreExchange::State& state;
  };
  {
    const Timed timed(*state_);
    work();
  }
  if (state_->left_behind) throw LeftBehind{};
}

void ExchangeTurns::run() {
  bool more = false;
  do {
    if (store_ == nullptr) call([this] { store_ = open_(); });
    if (store_ == nullptr) {
      miss_store();
    } else {
      more = options_.rank == 0 ? take_pieces() : send();
    }
  } while (state_->pause(more ? kTurnInStock : kTurn));
}

void ExchangeTurns::close() {
  call([this] { store_.reset(); });
}

bool ExchangeTurns::has(const std::string& key) {
  bool found = false;
  call([&] { found = store_->has(key); });
  return found;
}

void ExchangeTurns::miss_store() {
  const std::int64_t limit_ns = kTimeoutsWithoutStore * options_.timeout_ms * kMsInNs;
  if (steady_ns() - begun_ns_ < limit_ns) return;
  state_->say("exchange=store: set_exchange gave no store, and rank 0 has published no port in " +
              options_.dir + kInsteadOfExchange);
}

bool ExchangeTurns::is_in_folder(std::int64_t rank) const {
  RingReader ring;
  return ring.open(ring_path(options_, rank)).empty() && ring.head().run_id == options_.run_id &&
         ring.head().world_size == options_.world_size;
}

bool ExchangeTurns::send() {
  if (!options_.also_in_folder && !state_->is_heard && is_in_folder(0)) return false;
  if (pieces_.empty()) take_stock();
  if (pieces_.empty()) return false;
  const std::string key = store_key_of(options_.rank);
  if (has(key)) {
    if (steady_ns() - sent_ns_ > kUnheardNs) state_->is_heard = false;
    return false;
  }
  state_->is_heard = sent_ns_ != 0;
  const std::string piece = pieces_.next();
  call([&] { store_->set(key, piece); });
  sent_ns_ = steady_ns();
  return !pieces_.empty();
}

void ExchangeTurns::take_stock() {
  RingReader ring;
  if (!ring.open(ring_path(options_, options_.rank)).empty()) return;
  const std::int64_t last = last_ended_step(ring);
  if (last < next_step_) return;
  pieces_.take_stock();
  next_step_ = next_compared_step(last, options_.every);
}

bool ExchangeTurns::take_pieces() {
  look_around();
  bool more = false;
  for (std::int64_t rank = 1; rank < options_.world_size; ++rank) {
    if (state_->has_to_end()) return false;
    if (near_.contains(rank)) continue;
    const std::string key = store_key_of(rank);
    if (!has(key)) continue;
    std::string piece;
    call([&] { piece = store_->get(key); });
    call([&] { store_->remove(key); });
    take(rank, piece);
    more = true;
  }
  return more;
}

void ExchangeTurns::look_around() {
  const std::int64_t now_ns = steady_ns();
  if (options_.also_in_folder || now_ns < look_around_ns_) return;
  look_around_ns_ = now_ns + kLookAroundNs;
  near_.clear();
  for (const RingPlace& place : list_rings(options_.dir)) {
    if (is_in_folder(place.rank)) near_.insert(place.rank);
  }
}

void ExchangeTurns::take(std::int64_t rank, const std::string& piece) {
  std::int64_t bytes_of_others = 0;
  for (const auto& [other, mirror] : mirrors_) {
    if (other != rank) bytes_of_others += static_cast<std::int64_t>(mirror.file_bytes());
  }
  if (bytes_of_others >= kMostImagesBytes) {
    state_->say("the rings of all ranks are more than 1 GiB: rank " + std::to_string(rank) +
                " and others are compared at the merge alone");
    return;
  }
  RingMirror& mirror = mirrors_[rank];
  if (mirror.take(piece)) show(rank, mirror);
}

void ExchangeTurns::show(std::int64_t rank, const RingMirror& mirror) {
  RingReader ring;
  if (!ring.open(mirror.file()).empty() || ring.head().rank != rank) return;
  {
    const std::lock_guard lock(state_->mutex);
    // A store that outlives a restart may hold one piece of the ranks before, never two.
    const auto before = std::exchange(state_->images[rank], mirror.file());
    if (before != mirror.file() || ring.head().run_id == options_.run_id) return;
  }
  state_->say("rank " + std::to_string(rank) + " says that it is of run " +
              ddpscope::quoted(ring.head().run_id) + ", this rank is of run " +
              ddpscope::quoted(options_.run_id) +
              ", so they are not compared. Set DDPSCOPE_RUN_ID to one word on all hosts.");
}

}  // namespace ddpscope
