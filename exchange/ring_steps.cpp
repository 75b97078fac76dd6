#include "exchange/ring_steps.h"

#include <algorithm>

namespace ddpscope {
namespace {
// Threads of one rank note their calls side by side.
constexpr std::uint64_t kDisorder = 64;
constexpr std::int64_t kFirstSteps = 8;

/// The first of the places whose step is above `step`. Steps rise with places; a slot that was
/// overwritten is an old one.
template <class StepAt>
std::uint64_t first_above(std::uint64_t begin, std::uint64_t end, std::int64_t step,
                          const StepAt& step_at) {
  while (begin < end) {
    const std::uint64_t middle = begin + (end - begin) / 2;
    const auto found = step_at(middle);
    if (found && *found > step) {
      end = middle;
    } else {
      begin = middle + 1;
    }
  }
  return begin;
}
}  // namespace

std::int64_t last_ended_step(const RingReader& ring) {
  for (std::uint64_t place = ring.digest_count(); place > ring.first_digest(); --place) {
    const auto digest = ring.digest(place - 1);
    if (digest && digest->phase != Phase::kReduce) return digest->step;
  }
  return 0;
}

std::int64_t last_common_step(const std::vector<RingReader>& rings) {
  std::int64_t last = INT64_MAX;
  for (const RingReader& ring : rings) last = std::min(last, last_ended_step(ring));
  return rings.empty() ? 0 : last;
}

std::int64_t next_compared_step(std::int64_t step, std::int64_t every) {
  std::int64_t next = 1;
  while (next <= step && next <= kFirstSteps) next *= 2;
  const std::int64_t later = step > INT64_MAX - every ? INT64_MAX : step + every;
  return next <= kFirstSteps ? std::min(next, later) : later;
}

void show_steps(RingReader& ring, std::int64_t first, std::int64_t last) {
  using Step = std::optional<std::int64_t>;
  const auto of_digest = [&ring](std::uint64_t place) -> Step {
    const auto digest = ring.digest(place);
    return digest ? Step(digest->step) : std::nullopt;
  };
  const auto of_call = [&ring](std::uint64_t place) -> Step {
    const auto call = ring.call(place);
    return call ? Step(call->step) : std::nullopt;
  };
  RingPart part = ring.shown();
  const auto [first_call, calls, first_digest, digests, from, to] = part;
  part.first_step = std::max(first, from);
  part.last_step = std::min(last, to);
  part.first_digest = first_above(first_digest, digests, first - 1, of_digest);
  part.digest_count = first_above(part.first_digest, digests, last, of_digest);
  for (; part.digest_count > part.first_digest; --part.digest_count) {
    const Step step = of_digest(part.digest_count - 1);  // the newest may be half written
    if (step && *step <= last) break;
  }
  const std::uint64_t begin = first_above(first_call, calls, first - 1, of_call);
  const std::uint64_t end = first_above(begin, calls, last, of_call);
  part.first_call = std::max(first_call, begin - std::min(begin, kDisorder));
  part.call_count = std::min(calls, end + kDisorder);
  ring.show(part);
}

}  // namespace ddpscope
