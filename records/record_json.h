#pragma once

#include <nlohmann/json_fwd.hpp>
#include <stdexcept>

#include "records/launch_file.h"
#include "records/rank_file.h"

namespace ddpscope {

/// What a `limit` record says where the report is as large as it may be; else it is the error.
inline constexpr std::string_view kReportLimit = "max_report_mb is reached";

/// A member of a record has a wrong type or a word that this version does not know.
class FormatError : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Records as JSON with the members and in the order of docs/report-format.md. Strings are made
/// valid UTF-8; NaN and Inf become "nan", "inf", "-inf".
nlohmann::ordered_json to_json(const RunRecord& run);
nlohmann::ordered_json to_json(const ModelRecord& model);
nlohmann::ordered_json to_json(const StepRecord& step);
nlohmann::ordered_json to_json(const StepDigest& digest);
nlohmann::ordered_json to_json(const Finding& finding);
nlohmann::ordered_json to_json(const ProgressRecord& progress);
nlohmann::ordered_json to_json(const SuppressionRecord& suppression);
nlohmann::ordered_json to_json(const CheckCost& cost);
nlohmann::ordered_json to_json(const SummaryRecord& summary);
nlohmann::ordered_json to_json(const LaunchRecord& launch);
nlohmann::ordered_json to_json(const Site& site);

/// The members of a progress record that name where it stood, to be put into another text:
/// `,"model":"net","module_path":"head","op":"aten::view"`.
std::string place_members(const ProgressRecord& progress);

/// A number, or the word for what JSON lacks.
nlohmann::ordered_json json_number(double value);

/// The inverse. Absent and unknown members are accepted; throws FormatError on a wrong type.
RunRecord run_from_json(const nlohmann::ordered_json& json);
ModelRecord model_from_json(const nlohmann::ordered_json& json);
StepRecord step_from_json(const nlohmann::ordered_json& json);
Finding finding_from_json(const nlohmann::ordered_json& json);
ProgressRecord progress_from_json(const nlohmann::ordered_json& json);
SuppressionRecord suppression_from_json(const nlohmann::ordered_json& json);
SummaryRecord summary_from_json(const nlohmann::ordered_json& json);
Site site_from_json(const nlohmann::ordered_json& json);

}  // namespace ddpscope
