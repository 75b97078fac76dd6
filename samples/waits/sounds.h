#pragma once

#include <torch/torch.h>

#include <chrono>
#include <numbers>
#include <optional>
#include <thread>

namespace waits {

constexpr std::int64_t kTones = 8192;
constexpr std::int64_t kRecorded = 256;
constexpr std::int64_t kMicrophones = 8;
constexpr std::int64_t kLongest = 1024;
constexpr std::int64_t kSoundsPerBatch = 32;
constexpr std::int64_t kStepsPerEpoch = 100;

struct Batch {
  torch::Tensor sounds;
  torch::Tensor tones;
};

/// A tone and noise at each microphone.
struct Recordings {
  Recordings()
      : tones(torch::randint(kTones, {kRecorded})),
        sounds(0.1 * torch::randn({kRecorded, kMicrophones, kLongest})) {
    const auto pitch = (0.01 + 0.3 * tones / kTones).reshape({kRecorded, 1, 1});
    const auto phase = 2 * std::numbers::pi * torch::rand({kRecorded, kMicrophones, 1});
    sounds += torch::sin(2 * std::numbers::pi * pitch * torch::arange(kLongest) + phase);
  }
  torch::Tensor tones;
  torch::Tensor sounds;
};

/// How a data set is slow to read.
struct Slowness {
  std::chrono::milliseconds each{0};             ///< batch
  std::chrono::milliseconds after_the_epoch{0};  ///< the first batch that the epoch does not use
};

class Sounds : public torch::data::datasets::BatchDataset<Sounds, Batch> {
 public:
  Sounds(const Recordings& recordings, const Slowness& slowness)
      : recordings_(recordings), slowness_(slowness) {}

  Batch get_batch(c10::ArrayRef<std::size_t> request) override {
    std::this_thread::sleep_for(slowness_.each);
    if (++reads_ == kStepsPerEpoch + 1) std::this_thread::sleep_for(slowness_.after_the_epoch);
    const auto count = static_cast<std::int64_t>(request.size());
    Batch batch{.sounds = torch::empty({count, kMicrophones, kLongest}),
                .tones = torch::empty({count}, torch::kInt64)};
    for (std::int64_t i = 0; i < count; ++i) {
      const auto place =
          static_cast<std::int64_t>(request[static_cast<std::size_t>(i)]) % kRecorded;
      batch.sounds[i].copy_(recordings_.sounds[place]);
      batch.tones[i].copy_(recordings_.tones[place]);
    }
    return batch;
  }

  /// More than an epoch takes.
  std::optional<std::size_t> size() const override {
    return static_cast<std::size_t>((kStepsPerEpoch + 28) * kSoundsPerBatch);
  }

 private:
  Recordings recordings_;
  Slowness slowness_;
  std::int64_t reads_ = 0;
};

}  // namespace waits
