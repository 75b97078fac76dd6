#include "config/env.h"

#include <algorithm>
#include <array>
#include <cstdlib>

#include "config/setting_types.h"
#include "config/text.h"

namespace ddpscope {
namespace {
struct RankVariables {
  const char* rank;
  const char* world_size;
  const char* needs;  ///< only where this one is set
};
constexpr std::array<RankVariables, 4> kRankVariables = {{
    {"RANK", "WORLD_SIZE", nullptr},
    {"SLURM_PROCID", "SLURM_NTASKS", "SLURM_STEP_ID"},
    {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", nullptr},
    {"PMI_RANK", "PMI_SIZE", nullptr},
}};
constexpr std::array<const char*, 4> kLocalRankVariables = {
    "LOCAL_RANK", "SLURM_LOCALID", "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID"};
constexpr std::array<const char*, 3> kLocalSizeVariables = {
    "LOCAL_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS"};
constexpr std::array<std::string_view, 3> kThisHost = {"127.0.0.1", "localhost", "::1"};

std::optional<std::string> non_empty(const EnvironmentLookup& lookup, const char* name) {
  auto value = lookup(name);
  if (value && trim(*value).empty()) value.reset();
  return value;
}

std::optional<std::int64_t> number(const std::string& text, std::int64_t min, std::int64_t max) {
  const auto value = parse_integer(trim(text));
  return value && *value >= min && *value <= max ? value : std::nullopt;
}

std::string bad_value(const char* name, const std::string& value, const std::string& allowed) {
  return std::string(name) + "=" + quoted(value) + " is not " + allowed;
}

// Takes the pair if both are right; says why it does not if one of them is set.
bool take_ranks(const RankVariables& names, const EnvironmentLookup& lookup, RankEnvironment& out) {
  if (names.needs != nullptr && !non_empty(lookup, names.needs)) return false;
  const auto rank_text = non_empty(lookup, names.rank);
  const auto world_text = non_empty(lookup, names.world_size);
  if (!rank_text && !world_text) return false;
  const std::string pair = std::string(names.rank) + "/" + names.world_size;
  const auto refuse = [&](const std::string& why) {
    out.messages.push_back(why + "; " + pair + " is not used");
    return false;
  };
  if (!rank_text) return refuse(std::string(names.rank) + " is not set");
  if (!world_text) return refuse(std::string(names.world_size) + " is not set");
  const auto world_size = number(*world_text, 1, kMaxRank);
  if (!world_size) {
    const std::string allowed = "a whole number of ranks from 1 to " + std::to_string(kMaxRank);
    return refuse(bad_value(names.world_size, *world_text, allowed));
  }
  const auto rank = number(*rank_text, 0, *world_size - 1);
  if (!rank) {
    const std::string allowed = "a rank from 0 to " + std::to_string(*world_size - 1);
    return refuse(bad_value(names.rank, *rank_text, allowed));
  }
  out.rank = *rank;
  out.world_size = *world_size;
  out.source = pair;
  return true;
}

void take_local_rank(const EnvironmentLookup& lookup, RankEnvironment& out) {
  for (const char* name : kLocalRankVariables) {
    const auto text = non_empty(lookup, name);
    if (!text) continue;
    if (const auto local_rank = number(*text, 0, out.world_size - 1)) {
      out.local_rank = *local_rank;
      return;
    }
    const std::string allowed = "a local rank from 0 to " + std::to_string(out.world_size - 1);
    out.messages.push_back(bad_value(name, *text, allowed) + "; it is not used");
  }
}

void take_local_world_size(const EnvironmentLookup& lookup, RankEnvironment& out) {
  for (const char* name : kLocalSizeVariables) {
    const auto text = non_empty(lookup, name);
    if (!text) continue;
    if (const auto size = number(*text, 1, out.world_size)) {
      out.local_world_size = *size;
      return;
    }
  }
  const std::string address = lookup("MASTER_ADDR").value_or("");
  const bool is_here = std::ranges::find(kThisHost, trim(address)) != kThisHost.end();
  out.local_world_size = is_here ? out.world_size : 1;
}

std::string launch_of(const EnvironmentLookup& lookup) {
  const auto value = [&](const char* name) { return non_empty(lookup, name).value_or(""); };
  if (const auto space = non_empty(lookup, "PMIX_NAMESPACE")) return "pmix:" + *space;
  if (const auto step = non_empty(lookup, "SLURM_STEP_ID")) {
    return "slurm:" + value("SLURM_JOB_ID") + "." + *step + ":" + value("SLURM_RESTART_COUNT");
  }
  // Without an id of its own torchrun calls every launch "none".
  const std::string id = value("TORCHELASTIC_RUN_ID");
  if (id.empty() || id == "none") return "";
  return "torchrun:" + id + ":" + value("TORCHELASTIC_RESTART_COUNT") + ":" + value("MASTER_PORT");
}
}  // namespace

std::optional<std::string> environment(const char* name) {
  const char* value = std::getenv(name);
  if (value == nullptr) return std::nullopt;
  return std::string(value);
}

RankEnvironment rank_environment(const EnvironmentLookup& lookup) {
  RankEnvironment out;
  for (const auto& names : kRankVariables) {
    if (take_ranks(names, lookup, out)) break;
  }
  take_local_rank(lookup, out);
  take_local_world_size(lookup, out);
  out.launch = launch_of(lookup);
  return out;
}

}  // namespace ddpscope
