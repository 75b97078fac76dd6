#pragma once

#include <cstdint>
#include <string>

#include "config/settings.h"
#include "report/metrics_text.h"

namespace ddpscope {

/// The text file for Prometheus that the setting `metrics_file` names. On the worker's thread.
class MetricsFile {
 public:
  /// Where the name does not tell ranks apart, rank 0 alone has a file. A relative name counts from
  /// the folder of now.
  MetricsFile(const RunRecord& run, const Settings& settings);

  const std::string& path() const { return path_; }
  /// Whether it is time to write; true each five seconds, never without a file.
  bool is_due(std::int64_t steady_ns);
  /// Replaces the file. Returns one line for the user the first time that it cannot, or nothing.
  std::string write(const RunMetrics& metrics);

 private:
  std::string path_;
  std::int64_t next_ns_ = 0;
  bool has_failed_ = false;
};

}  // namespace ddpscope
