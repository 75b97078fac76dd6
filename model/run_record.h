#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace ddpscope {

inline constexpr std::int64_t kReportSchema = 1;
/// The largest rank that is believed; contract of the report files.
inline constexpr std::int64_t kMaxRank = std::int64_t{1} << 20;

struct SettingValue {
  std::string value;
  std::string source;  ///< default, config_file, options, environment
};

/// First line of a rank file.
struct RunRecord {
  std::int64_t schema = kReportSchema;
  std::string run_id;
  std::string tool_version;
  std::string torch_version;
  std::string cuda;
  std::string nccl;
  std::int64_t rank = 0;
  std::int64_t local_rank = 0;
  std::int64_t world_size = 1;
  std::string host;
  std::string device;  ///< `cpu`, or the UUID of a GPU once a registered tensor lies there
  std::optional<std::int64_t> device_index;
  std::int64_t visible_devices = 0;
  std::string device_mask;  ///< the variable that hides devices
  std::int64_t pid = 0;
  std::string started;  ///< RFC 3339, UTC
  std::vector<std::string> command;
  std::map<std::string, SettingValue> settings;
  std::vector<std::string> checks;
  std::map<std::string, std::string> blocked;  ///< check id -> why it cannot run
  std::map<std::string, std::string> sources;  ///< source -> live, fallback or absent
};

/// Modules of a model that its record names; what is beyond is counted.
inline constexpr std::size_t kNamedModules = 1000;

/// One module and what it holds itself.
struct ModuleRecord {
  std::string path;  ///< "" is the root
  std::string class_name;
  std::int64_t parameters = 0;
  std::int64_t trainable = 0;  ///< of them
  std::int64_t elements = 0;
};

struct ModelRecord {
  std::string name;
  std::string class_name;
  std::int64_t parameters = 0;
  std::int64_t elements = 0;
  std::int64_t trainable = 0;
  std::int64_t buffers = 0;
  std::int64_t modules = 0;
  std::string digest;              ///< hex, of order, names, shapes and dtypes
  std::vector<ModuleRecord> tree;  ///< in registered order, as rank 0 has it; the first ones
};

struct StepRecord {
  std::int64_t step = 0;
  double wall_ms = 0;
  double overhead_us = 0;
  std::int64_t collectives = 0;         ///< that this rank issued in it, over all groups
  std::int64_t seq = 0;                 ///< of the last one up to its end, in its group; 0: none
  std::int64_t host_reads = 0;          ///< of tensors of the CPU, that would wait on a device
  std::int64_t time_unix_ns = 0;        ///< of its end; 0: not known
  std::optional<double> loss;           ///< the last one of the step
  std::optional<double> gradient_norm;  ///< before ranks average and the program clips
};

struct CostShare {
  double us_per_step = 0;
  double percent = 0;
};

struct CheckCost {
  double us_per_step = 0;  ///< of all steps
  double percent = 0;
  std::optional<CostShare> first;  ///< of the first cycles, in which every source runs in full
  std::optional<CostShare> after;  ///< of the others; absent in a run without
  double coverage = 1;             ///< share of the cycles after the first ones that it saw
  std::int64_t latency_steps = 1;  ///< steps within which it sees what begins
};

/// Cycles that were watched, compared with those before them in which hooks rested.
struct WatchedCost {
  double share = 1;  ///< of all cycles after the first ones
  std::int64_t pairs = 0;
  double resting_ms = 0;     ///< median of a cycle at rest
  double extra_percent = 0;  ///< by which one that is watched takes longer; median and quartiles
  double lower_percent = 0;
  double upper_percent = 0;
};

enum class SuppressionState : std::uint8_t { kUnused, kUsed, kExpired };

/// What became of one line of a suppressions file.
struct SuppressionRecord {
  std::string path;  ///< of the file, as the setting names it
  std::int64_t line = 0;
  std::string text;   ///< printable, without the reason; long ones are cut
  std::string until;  ///< last day, YYYY-MM-DD; empty is for ever
  SuppressionState state = SuppressionState::kUnused;
};

/// Last line of a clean exit.
struct SummaryRecord {
  std::map<std::string, std::int64_t> counts_by_id;
  std::int64_t errors = 0;
  std::int64_t warnings = 0;
  std::int64_t notes = 0;
  std::int64_t steps = 0;
  std::vector<std::string> passed;
  std::vector<std::string> failed;
  std::map<std::string, std::string> blocked;
  std::int64_t events_dropped = 0;
  std::optional<double> overhead_percent;  ///< after the first 64 cycles; absent: not measured
  std::optional<double> overhead_percent_first;
  std::map<std::string, CheckCost> overhead;
  std::optional<WatchedCost> watched;  ///< where hooks rested in some cycles
  bool clean_exit = true;
};

}  // namespace ddpscope
