#pragma once

// What lies in a ring, in words: the headers that read it do not go with the public one.
#include <cstdint>
#include <string>
#include <vector>

namespace ddpscope::test {

struct NotedCall {
  std::uint64_t seq = 0;
  std::uint64_t group = 0;
  std::int64_t group_size = 0;
  std::int64_t unix_ns = 0;
  std::uint64_t elements = 0;
  std::int64_t step = 0;
  std::int64_t list = 0;
  std::int64_t root = 0;
  std::string owner;
  std::string dtype;
  std::string kind;    ///< all_reduce, ...
  std::string reduce;  ///< sum, max, - or other
  std::string phase;
  std::string state;  ///< issued, completed or failed
  std::string file;   ///< where it was called; empty: not known
  std::int64_t line = 0;
};

struct RingLeft {
  std::string error;
  std::vector<NotedCall> calls;
  std::vector<double> weights;  ///< of gradients, by step that tells of them
  std::int64_t step = 0;        ///< of the heartbeat
  bool ended = false;
};

RingLeft read_ring(const std::string& path);

/// How far the values of the tensors of all ranks lie apart.
struct ValuesLeft {
  std::vector<bool> evaluated;  ///< by rank
  std::string path;             ///< "" where nothing was estimated
  std::int64_t step = 0;
  double relative = 0;
};
ValuesLeft compare_values_in(const std::vector<std::string>& ring_paths);

/// Of one step, the gradients before and after all ranks reduced them.
struct ReducedLeft {
  std::int64_t step = 0;
  std::int64_t sampled = 0;
  std::int64_t differing = 0;
  double ratio = 0;     ///< to the mean; 0: not known
  double residual = 0;  ///< what is no multiple of the sum
};
std::vector<ReducedLeft> compare_gradients_in(const std::vector<std::string>& ring_paths);

/// The operators before which all ranks held one random state, with the numbers of such steps.
std::vector<std::string> same_random_in(const std::vector<std::string>& ring_paths);

}  // namespace ddpscope::test
