#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "exchange/ring_mirror.h"

namespace ddpscope {

/// What all ranks read and write: bytes by keys. A call may block for ever, and may throw.
class SharedStore {
 public:
  virtual ~SharedStore() = default;
  virtual bool has(const std::string& key) = 0;
  virtual std::string get(const std::string& key) = 0;
  virtual void set(const std::string& key, const std::string& bytes) = 0;
  virtual void remove(const std::string& key) = 0;
};

/// Thrown by a store that was closed as it should be: the exchange ends without a word.
struct StoreClosed {};

/// Null while there is none yet. Blocks and throws as the store does.
using StoreOpener = std::function<std::unique_ptr<SharedStore>()>;

/// Of all images together; ranks beyond that are left to the merge.
inline constexpr std::int64_t kMostImagesBytes = std::int64_t{1} << 30;

/// Brings the rings of ranks that have no folder in common to the lowest rank. Each other rank sets
/// what is new in its ring under one key of its own, at the steps that are compared, and sets more
/// when that was taken: the store holds one piece per rank. All calls of the store are made by one
/// thread that nobody ever waits for longer than for the timeout, and that may be left behind.
class StoreExchange {
 public:
  struct Options {
    std::int64_t rank = 0;
    std::int64_t world_size = 1;
    std::string run_id;
    std::string dir;  ///< of this rank's ring
    std::int64_t every = 16;
    std::int64_t timeout_ms = 5000;
    bool also_in_folder = false;  ///< ranks whose rings lie in the lowest rank's folder, too
  };

  StoreExchange();
  ~StoreExchange();
  StoreExchange(const StoreExchange&) = delete;
  StoreExchange& operator=(const StoreExchange&) = delete;

  /// Once; false for later calls, which do nothing.
  bool start(const Options& options, StoreOpener open) noexcept;
  /// It goes on: nothing failed, and no call has been waiting for longer than the timeout.
  bool is_live() const noexcept;
  /// The lowest rank takes what this one sends.
  bool is_heard() const noexcept;
  /// What has arrived, on the lowest rank; empty once the exchange has ended.
  std::vector<RingImage> images() const;
  /// One line for the user, once: why it ended, or what it lacks.
  std::string trouble(std::int64_t now_ns);
  /// Ends it. Waits for a call in progress until that has taken the timeout.
  void stop() noexcept;

  struct State;  ///< shared with the thread, which may outlive this object

 private:
  std::shared_ptr<State> state_;
};

}  // namespace ddpscope
