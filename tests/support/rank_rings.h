#pragma once

#include <fcntl.h>

#include <map>
#include <string>

#include "exchange/rank_ring.h"
#include "exchange/tensor_list.h"
#include "records/file_descriptor.h"
#include "records/report_dir.h"

namespace ddpscope::test {

inline constexpr std::int64_t kStartNs = 1'900'000'000'000'000'000;
inline constexpr std::int64_t kMsNs = 1'000'000;
inline constexpr RingSizes kTestRing{
    .calls = 4096, .digests = 256, .kept_bytes = 1 << 14, .recent_bytes = 1 << 14};

struct TestCall {
  std::string owner;
  std::uint64_t elements = 64;
  CollectiveKind kind = CollectiveKind::kAllReduce;
  ReduceKind reduce = ReduceKind::kSum;
  std::string module;
  std::string dtype = "float32";
  std::int32_t root = -1;
  CallState state = CallState::kCompleted;
  StackId stack = 0;
  std::uint32_t waited_us = 500;
  std::int64_t took_ms = 1;
  std::uint32_t norm_call = 0;
  Phase phase = Phase::kReduce;
};

/// Writes one rank's ring as a rank would.
class TestRank {
 public:
  TestRank(const std::string& dir, std::int64_t rank, std::int64_t world_size,
           const std::string& run_id = "r1", const RingSizes& sizes = kTestRing)
      : group_(group_key(0x77777700000000, world_size)) {
    const auto folder = open_report_dir(dir);
    const RingHead head{.run_id = run_id, .rank = rank, .world_size = world_size, .pid = 42};
    problem = writer.open(folder.fd.get(), head, sizes);
  }

  /// Later calls are of this group.
  void enter(std::uint64_t key) { group_ = key; }
  void at_step(std::int32_t step) { step_ = step; }

  void call(const TestCall& call) {
    const CallRecord record{.seq = ++seq_[group_],
                            .group = group_,
                            .unix_ns = now(),
                            .elements = call.elements,
                            .step = step_,
                            .owner = writer.name(call.owner),
                            .module = writer.name(call.module),
                            .dtype = writer.name(call.dtype),
                            .root = call.root,
                            .stack = call.stack,
                            .kind = call.kind,
                            .reduce = call.reduce,
                            .phase = call.phase,
                            .norm_call = call.norm_call};
    const auto place = writer.issued(record);
    if (call.state != CallState::kIssued) writer.ended(place, call.waited_us, call.state);
    pass_ms(call.took_ms);
  }
  void reduce(const std::string& parameter, std::uint64_t elements = 64) {
    call({.owner = parameter + ".grad", .elements = elements});
  }
  void reduce_and_wait(const std::string& parameter, std::int64_t ms) {
    call({.owner = parameter + ".grad",
          .waited_us = static_cast<std::uint32_t>(1000 * ms),
          .took_ms = ms});
  }
  void digest(StepDigest digest) {
    digest.unix_ns = now();
    writer.put(digest);
  }
  void list(const TensorList& list, std::int64_t step = 0, std::uint32_t model = 0) {
    writer.put(Blob{BlobKind::kTensors, model, step, encode(list)});
  }
  void site(StackId stack, const std::string& json) {
    writer.put({.kind = BlobKind::kSite, .number = stack, .bytes = json});
  }
  void beat(const std::string& module, Phase phase = Phase::kForward, bool ended = false) {
    writer.beat({.unix_ns = now(),
                 .step = step_,
                 .progress = ++beats_,
                 .module = writer.name(module),
                 .phase = phase,
                 .ended = ended});
  }

  void pass_ms(std::int64_t ms) { now_ms_ += ms; }
  std::int64_t now() const { return kStartNs + now_ms_ * kMsNs; }

  RingWriter writer;
  std::string problem;  ///< of opening it

 private:
  std::uint64_t group_;
  std::map<std::uint64_t, std::uint64_t> seq_;
  std::int32_t step_ = 1;
  std::int64_t now_ms_ = 0;
  std::uint64_t beats_ = 0;
};

/// Two layers and a buffer.
inline TensorList test_list() {
  const auto of = [](const std::string& path, std::vector<std::int64_t> shape, bool is_buffer) {
    return ListedTensor{.path = path,
                        .dtype = "float32",
                        .shape = std::move(shape),
                        .is_buffer = is_buffer,
                        .requires_grad = !is_buffer};
  };
  return {.model = "Net",
          .tensors = {of("fc1.weight", {8, 4}, false), of("fc1.bias", {8}, false),
                      of("fc2.weight", {2, 8}, false), of("bn.running_mean", {8}, true)}};
}

}  // namespace ddpscope::test
