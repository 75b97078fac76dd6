#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/finding.h"

namespace ddpscope {

/// A signal that somebody sends to end a program, and none that tells of a fault.
inline bool asks_to_end(std::string_view signal) {
  return signal == "SIGTERM" || signal == "SIGHUP" || signal == "SIGINT" || signal == "SIGQUIT" ||
         signal == "SIGUSR1" || signal == "SIGUSR2";
}

enum class EndKind : std::uint8_t { kClean, kException, kSignal, kExit, kKilled };

/// The GPU of one rank, where it has one.
struct RankDevice {
  std::string uuid;                ///< `GPU-5f1c...`, of a partition its own; empty: not known
  std::int64_t index = -1;         ///< as in `cuda:1`
  std::int64_t visible_count = 0;  ///< devices that the process sees
  std::string mask;                ///< the variable that hides others; empty: none
  bool is_shared = false;          ///< the settings say that ranks share devices
};

/// How one rank ended, as far as its file and its launcher know.
struct RankEnding {
  std::int64_t rank = 0;
  EndKind kind = EndKind::kClean;
  std::optional<std::int64_t> unix_ns;  ///< absent: not known
  bool noticed = false;                 ///< by the launcher, a little after it happened
  bool stopped = false;                 ///< by the launcher, because another rank had failed
  std::int64_t step = 0;                ///< in progress; the last known one where it was killed
  std::optional<Phase> phase;
  std::string model;
  std::string module_path;
  std::string op;
  std::string host;
  std::string exception_type;
  std::string exception;  ///< its text
  std::string signal;     ///< SIGTERM
  std::int64_t code = 0;  ///< exit code
  std::string last_call;  ///< in words, where its ring tells
  bool last_call_threw = false;
  RankDevice device;
};

/// The run is over. Only at a merge; ranks of which nothing is known are left out.
struct RanksEndedEvent {
  std::int64_t world_size = 1;
  std::vector<RankEnding> ranks;
};

}  // namespace ddpscope
