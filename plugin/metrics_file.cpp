#include "plugin/metrics_file.h"

#include <filesystem>

#include "config/resolve.h"
#include "records/report_dir.h"

namespace ddpscope {
namespace {
constexpr std::int64_t kBetweenNs = std::int64_t{5} * 1'000'000'000;
constexpr unsigned kMode = 0644;  // whoever collects it is another user

std::string path_for(const RunRecord& run, const std::string& pattern) {
  if (pattern.empty()) return {};
  const auto of_rank = [&](std::int64_t rank) {
    return expand_report_dir(pattern, rank, run.pid, run.host);
  };
  const bool is_shared = run.world_size > 1 && of_rank(0) == of_rank(1);
  if (is_shared && run.rank != 0) return {};
  std::error_code error;
  const auto full = std::filesystem::absolute(of_rank(run.rank), error);
  return error ? of_rank(run.rank) : full.string();
}
}  // namespace

MetricsFile::MetricsFile(const RunRecord& run, const Settings& settings)
    : path_(path_for(run, settings.metrics_file)) {}

bool MetricsFile::is_due(std::int64_t steady_ns) {
  if (path_.empty() || steady_ns < next_ns_) return false;
  next_ns_ = steady_ns + kBetweenNs;
  return true;
}

std::string MetricsFile::write(const RunMetrics& metrics) {
  if (path_.empty()) return {};
  const std::string error = write_file_atomically(path_, metrics_text(metrics), kMode);
  if (error.empty() || has_failed_) return {};
  has_failed_ = true;
  return "metrics_file: " + error;
}

}  // namespace ddpscope
