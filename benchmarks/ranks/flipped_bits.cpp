// How many flipped bits in one element of a gradient are found: `flipped_bits FOLDER [runs]
// [elements]` reduces random gradients of two ranks, flips in one step of each run one bit of one
// element, each bit in turn, and judges the sketches as a merge does. The bit flips on one rank
// after the reduction, or in the sum that both receive. Runs without a flip must be silent.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include "checks/ranks_judge.h"
#include "exchange/rank_compare.h"
#include "exchange/reduction_record.h"
#include "exchange/ring_set.h"
#include "exchange/tensor_list.h"
#include "records/file_descriptor.h"
#include "values/tensor_values.h"

namespace ddpscope {
namespace {
using Gradient = std::vector<float>;
constexpr const char* kRunId = "flipped_bits";
constexpr std::size_t kRanks = 2;
constexpr RingSizes kSizes{
    .calls = 16, .digests = 64, .kept_bytes = 1 << 12, .recent_bytes = 1 << 14};
constexpr std::int32_t kSteps = 12;
constexpr std::int32_t kFlippedAt = 10;
constexpr std::array kBits = {12, 16, 18, 20, 22, 24, 26, 28, 30, 31};

enum class Flips : std::uint8_t { kNone, kOnOneRank, kInTheSum };

struct Told {
  GradientSketch sketch;
  std::uint64_t fingerprint = 0;
};

Told told_of(const Gradient& gradient) {
  const TensorValues values = measure_values(
      {.data = gradient.data(), .elements = static_cast<std::int64_t>(gradient.size())});
  Told told{.sketch = {.squares = values.sum_of_squares}, .fingerprint = values.fingerprint};
  if (values.nan_count + values.inf_count > 0) told.sketch.squares = NAN;
  std::copy_n(values.sketch, kSketchSize, told.sketch.sums.begin());
  return told;
}

void flip(Gradient& gradient, std::size_t place, int bit) {
  const auto word = std::bit_cast<std::uint32_t>(gradient[place]) ^ (1u << bit);
  gradient[place] = std::bit_cast<float>(word);
}

/// Gradients of one run; few draws make many of them.
class Draws {
 public:
  Draws(std::size_t elements, unsigned seed) : random_(seed), drawn_(2 * elements) {
    std::normal_distribution<float> normal(0, 1e-3F);
    for (float& one : drawn_) one = normal(random_);
  }
  Gradient next() {
    const std::size_t elements = drawn_.size() / 2;
    const auto begin = drawn_.begin() + static_cast<std::ptrdiff_t>(place());
    return {begin, begin + static_cast<std::ptrdiff_t>(elements)};
  }
  std::size_t place() { return random_() % (drawn_.size() / 2); }

 private:
  std::mt19937 random_;
  Gradient drawn_;
};

class Run {
 public:
  Run(const std::string& dir, std::size_t elements, unsigned seed)
      : dir_(dir), draws_(elements, seed) {
    const FileDescriptor folder(::open(dir.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    const TensorList list{.model = "Net",
                          .tensors = {{.path = "weight", .dtype = "float32", .shape = {}}}};
    for (std::size_t rank = 0; rank < kRanks; ++rank) {
      const RingHead head{.run_id = kRunId, .rank = static_cast<int>(rank), .world_size = kRanks};
      problem_ += rings_[rank].open(folder.get(), head, kSizes);
      rings_[rank].put(Blob{.kind = BlobKind::kTensors, .bytes = encode(list)});
    }
  }
  ~Run() {
    for (const RingPlace& place : list_rings(dir_)) ::unlink(place.path.c_str());
  }
  const std::string& problem() const { return problem_; }

  void step(std::int32_t number, Flips flips, int bit) {
    const std::array<Gradient, kRanks> before = {draws_.next(), draws_.next()};
    Gradient mean = before[0];
    for (std::size_t i = 0; i < mean.size(); ++i) mean[i] = (mean[i] + before[1][i]) / kRanks;
    const std::size_t place = draws_.place();
    const bool now = number == kFlippedAt;
    if (now && flips == Flips::kInTheSum) flip(mean, place, bit);
    for (std::size_t rank = 0; rank < kRanks; ++rank) {
      if (now && flips == Flips::kOnOneRank && rank == 1) flip(mean, place, bit);
      put(rings_[rank], number, told_of(before[rank]), told_of(mean));
    }
  }

  bool is_found() const {
    const RingSet set = open_rings(list_rings(dir_), kRunId);
    CompareOptions options;
    options.world_size = kRanks;
    const RanksComparedEvent run = compare_ranks(set.rings, options);
    return !judge_ranks(run, {.enabled = {"grad-reduced-wrong-scale"}}).findings.empty();
  }

 private:
  static void put(RingWriter& ring, std::int32_t step, const Told& before, const Told& after) {
    ToldReductions told{.calls = 1, .gradients = {}};
    told.gradients.push_back(
        {.before = before.sketch, .after = after.sketch, .fingerprint = after.fingerprint});
    const std::string bytes = encode(told);
    ring.put(Blob{.kind = BlobKind::kReductions, .step = step, .bytes = bytes});
    ring.put(StepDigest{.step = step, .structure = 1, .backwards = step, .averages = true});
  }

  std::string dir_;
  std::array<RingWriter, kRanks> rings_;
  Draws draws_;
  std::string problem_;
};

class Measurement {
 public:
  Measurement(std::string dir, int runs, std::size_t elements)
      : dir_(std::move(dir)), runs_(runs), elements_(elements) {}

  bool run() {
    std::printf("%zu elements, %zu ranks, of %d runs each:\n", elements_, kRanks, runs_);
    std::printf("no flip: %d found\n", count_found(Flips::kNone, 0));
    for (const int bit : kBits) {
      const int on_one = count_found(Flips::kOnOneRank, bit);
      const int in_sum = count_found(Flips::kInTheSum, bit);
      std::printf("bit %d: %d found on one rank, %d in the sum\n", bit, on_one, in_sum);
      std::fflush(stdout);
    }
    return problem_.empty();
  }
  const std::string& problem() const { return problem_; }

 private:
  int count_found(Flips flips, int bit) {
    int found = 0;
    for (int run = 0; run < runs_; ++run) {
      Run one(dir_, elements_, static_cast<unsigned>(1000 * bit + run));
      problem_ = one.problem();
      if (!problem_.empty()) return found;
      for (std::int32_t step = 1; step <= kSteps; ++step) one.step(step, flips, bit);
      found += one.is_found();
    }
    return found;
  }

  std::string dir_;
  int runs_;
  std::size_t elements_;
  std::string problem_;
};
}  // namespace
}  // namespace ddpscope

int main(int argc, char** argv) {
  const int runs = argc > 2 ? std::atoi(argv[2]) : 100;
  const long elements = argc > 3 ? std::atol(argv[3]) : 1'000'000;
  if (argc < 2 || runs < 1 || elements < 1) {
    std::fprintf(stderr, "usage: flipped_bits FOLDER [runs] [elements]\n");
    return 2;
  }
  ddpscope::Measurement measurement(argv[1], runs, static_cast<std::size_t>(elements));
  if (measurement.run()) return 0;
  std::fprintf(stderr, "flipped_bits: %s\n", measurement.problem().c_str());
  return 1;
}
