#pragma once

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <stdexcept>
#include <string>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>
#include <vector>

namespace samples {

/// This process among those that train together, as a launcher describes it in the environment.
struct World {
  int rank = 0;
  int size = 1;
  std::string address = "127.0.0.1";
  std::uint16_t port = 29500;
};

inline int number_from_environment(const char* name, int otherwise) {
  const char* text = std::getenv(name);
  if (text == nullptr || *text == '\0') return otherwise;
  char* end = nullptr;
  const long value = std::strtol(text, &end, 10);
  if (*end != '\0' || value < 0 || value > 65535) {
    throw std::runtime_error(std::string(name) + "=\"" + text + "\" is not a number in 0..65535");
  }
  return static_cast<int>(value);
}

inline World world_from_environment() {
  World world;
  world.rank = number_from_environment("RANK", 0);
  world.size = number_from_environment("WORLD_SIZE", 1);
  world.port = static_cast<std::uint16_t>(number_from_environment("MASTER_PORT", world.port));
  if (const char* address = std::getenv("MASTER_ADDR")) world.address = address;
  if (world.size < 1 || world.rank >= world.size) {
    throw std::runtime_error("RANK must be below WORLD_SIZE");
  }
  return world;
}

using Store = c10::intrusive_ptr<c10d::Store>;
using Group = c10::intrusive_ptr<c10d::ProcessGroupGloo>;

/// Where the processes find each other; null for a single process. torchrun has a store itself,
/// which outlives a restart.
inline Store make_store(const World& world) {
  if (world.size == 1) return {};
  const char* by_launcher = std::getenv("TORCHELASTIC_USE_AGENT_STORE");
  const char* attempt = std::getenv("TORCHELASTIC_RESTART_COUNT");
  c10d::TCPStoreOptions options;
  options.port = world.port;
  options.isServer = world.rank == 0 && (!by_launcher || std::string(by_launcher) != "True");
  options.numWorkers = static_cast<std::size_t>(world.size);
  options.timeout = std::chrono::seconds(60);
  const Store store = c10::make_intrusive<c10d::TCPStore>(world.address, options);
  if (attempt == nullptr) return store;
  return c10::make_intrusive<c10d::PrefixStore>(std::string("attempt-") + attempt, store);
}

/// The network of GLOO_SOCKET_IFNAME, which processes on several hosts need; else this host alone.
inline std::shared_ptr<::gloo::transport::Device> make_device() {
  const char* interface = std::getenv("GLOO_SOCKET_IFNAME");
  if (interface == nullptr) return c10d::ProcessGroupGloo::createDeviceForHostname("127.0.0.1");
  return c10d::ProcessGroupGloo::createDeviceForInterface(interface);
}

/// Connects `world.size` processes over Gloo; null for one. Groups of one store differ in `name`.
inline Group make_group(const Store& store, const World& world, const std::string& name = "all",
                        std::chrono::seconds timeout = std::chrono::seconds(60)) {
  if (world.size == 1) return {};
  auto options = c10d::ProcessGroupGloo::Options::create(timeout);
  options->devices.push_back(make_device());
  return c10::make_intrusive<c10d::ProcessGroupGloo>(
      c10::make_intrusive<c10d::PrefixStore>(name, store), world.rank, world.size, options);
}

/// All processes; null for a single one.
inline Group connect(const World& world, std::chrono::seconds timeout = std::chrono::seconds(60)) {
  return make_group(make_store(world), world, "all", timeout);
}

inline void broadcast(const Group& group, at::Tensor tensor, int root = 0) {
  std::vector<at::Tensor> one = {std::move(tensor)};
  c10d::BroadcastOptions options;
  options.rootRank = root;
  group->broadcast(one, options)->wait();
}

inline void add_over_ranks(const Group& group, at::Tensor tensor) {
  std::vector<at::Tensor> one = {std::move(tensor)};
  group->allreduce(one)->wait();
}

}  // namespace samples
