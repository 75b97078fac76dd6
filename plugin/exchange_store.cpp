#include "plugin/exchange_store.h"

#include <unistd.h>

#include <atomic>
#include <stdexcept>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "config/env.h"
#include "config/text.h"
#include "hooks/own_thread.h"
#include "plugin/tcp_probe.h"
#include "records/regular_file.h"
#include "records/report_dir.h"

namespace ddpscope {
namespace {
constexpr std::size_t kMostPortFileBytes = 4096;

using StorePointer = c10::intrusive_ptr<c10d::Store>;

// Without a lock, which a forked child could find taken.
constinit std::atomic<c10d::Store*> given{nullptr};

StorePointer take_given() { return StorePointer::reclaim(given.exchange(nullptr)); }

class StoreOfTorch : public SharedStore {
 public:
  explicit StoreOfTorch(StorePointer store) : store_(std::move(store)) {}
  bool has(const std::string& key) override { return store_->check({key}); }
  std::string get(const std::string& key) override {
    const std::vector<std::uint8_t> bytes = store_->get(key);
    return {bytes.begin(), bytes.end()};
  }
  void set(const std::string& key, const std::string& bytes) override {
    store_->set(key, std::vector<std::uint8_t>(bytes.begin(), bytes.end()));
  }
  void remove(const std::string& key) override { store_->deleteKey(key); }

 private:
  StorePointer store_;
};

std::string port_path(const StorePlace& place) { return place.dir + "/rank-0.port"; }

std::string read_port_file(const StorePlace& place) {
  std::string text;
  const std::string error = read_regular(port_path(place), kMostPortFileBytes, text);
  return error.empty() ? text : std::string();
}

/// Port 0: a server on a free one.
c10::intrusive_ptr<c10d::TCPStore> connect(const std::string& host, std::uint16_t port,
                                           std::int64_t timeout_ms) {
  c10d::TCPStoreOptions options;
  options.port = port;
  options.isServer = port == 0;
  options.waitWorkers = false;
  options.timeout = std::chrono::milliseconds(timeout_ms);
  return c10::make_intrusive<c10d::TCPStore>(host, options);
}

/// Of rank 0. Its file is there for as long as the store.
class OwnServer final : public StoreOfTorch {
 public:
  OwnServer(const StorePlace& place, const c10::intrusive_ptr<c10d::TCPStore>& store)
      : StoreOfTorch(store), path_(port_path(place)) {
    const std::string text = place.run_id + "\n" + std::to_string(store->getPort()) + "\n";
    const std::string error = write_file_atomically(path_, text);
    if (!error.empty()) throw std::runtime_error(error);
  }
  ~OwnServer() override { ::unlink(path_.c_str()); }

 private:
  std::string path_;
};

/// Of the other ranks.
class OwnClient final : public StoreOfTorch {
 public:
  OwnClient(const StorePlace& place, std::string published, StorePointer store)
      : StoreOfTorch(std::move(store)), place_(place), published_(std::move(published)) {}
  bool has(const std::string& key) override {
    if (read_port_file(place_) != published_) throw StoreClosed{};
    return StoreOfTorch::has(key);
  }

 private:
  StorePlace place_;
  std::string published_;
};

std::unique_ptr<SharedStore> join(const StorePlace& place, const std::string& address) {
  const std::string published = read_port_file(place);
  const std::string before = place.run_id + "\n";
  if (!published.starts_with(before)) return nullptr;
  const auto port = parse_integer(trim(published.substr(before.size())));
  if (!port || *port < 1 || *port > 65535) throw std::runtime_error(port_path(place) + ": no port");
  const auto number = static_cast<std::uint16_t>(*port);
  // LibTorch would try again and again, and say each time that it did.
  const std::string problem = why_not_reached(address, number, place.timeout_ms);
  if (!problem.empty()) throw std::runtime_error("rank 0 is not reached: " + problem);
  return std::make_unique<OwnClient>(place, published, connect(address, number, place.timeout_ms));
}

std::unique_ptr<SharedStore> open_store(const StorePlace& place) {
  leave_thread_alone();
  if (const StorePointer store = take_given()) {
    return std::make_unique<StoreOfTorch>(store->clone());
  }
  const auto address = environment("MASTER_ADDR");
  if (!address || address->empty()) {
    throw std::runtime_error("exchange=store needs set_exchange or MASTER_ADDR");
  }
  if (place.rank > 0) return join(place, *address);
  return std::make_unique<OwnServer>(place, connect("localhost", 0, place.timeout_ms));
}
}  // namespace

void give_exchange_store(StorePointer store) {
  take_given();
  given = store.release();
}

StoreAccess store_access(Exchange exchange) {
  if (exchange == Exchange::kOff || exchange == Exchange::kFiles) {
    take_given();
    return {};
  }
  return {.open = open_store, .is_given = given.load() != nullptr};
}

}  // namespace ddpscope
