#pragma once

#include <string>
#include <string_view>

#include "report/merged_report.h"

namespace ddpscope {

/// Words that several writers share. All return plain text that is not yet escaped.

/// Cut after `most` bytes.
std::string shortened(std::string_view text, std::size_t most);

/// `encoder.bn1`; with the label of the model before it where `with_model` is set, and before the
/// bare number of a layer of a Sequential; the label alone for the root; empty where the finding is
/// about no module.
std::string place_of(const Finding& finding, bool with_model);
/// `head.weight`: with the one tensor that the finding is about, unless its sentence names it.
std::string tensor_place_of(const Finding& finding, bool with_model);

/// The ranks of a finding, also before a merge.
std::vector<std::int64_t> ranks_of(const Finding& finding);

/// `src/model.cpp:88`, below the current directory as seen from there; `libnet.so+0x1f20` where no
/// line is known; or empty.
std::string place_of(const Frame& frame);

/// The file of a frame: below the current directory as seen from there.
std::string file_of(const Frame& frame);

/// The frame of a site that is a line of the program; null where no line of it is known.
const Frame* line_of(const Site& site);

/// The site where the program is to be changed, as far as its role tells, of those with a line;
/// null where there is none.
const Site* main_site(const Finding& finding);

/// The place where a site is: its function and its place, or in words why they are not known.
struct SitePlace {
  std::string function;
  std::string place;
  const Frame* frame = nullptr;  ///< of the site; null if it has none
};
/// Of the program's own first frame with a source line. Without one it is an address: a line of a
/// library would send the reader to the wrong file.
SitePlace place_of(const Site& site);

/// Fixes, safe ones first.
std::vector<Fix> fixes_in_order(const Finding& finding);
/// `safe`, `likely`, `needs decision`.
std::string applicability_words(Applicability value);

/// `1 error, 2 warnings, 0 notes`.
std::string count_words(const MergedReport& report);

/// Checks by state.
struct CoverageCounts {
  std::int64_t run = 0;
  std::int64_t passed = 0;
  std::int64_t failed = 0;
  std::int64_t blocked = 0;
};
CoverageCounts count_coverage(const MergedReport& report);

/// `ci.txt:3: grad-*: matched no finding`.
std::string leftover_words(const SuppressionRecord& suppression);

/// The value of a fact as text.
std::string fact_words(const FactValue& value);

/// `1.4 % of step time, 6.2 % while all hooks ran`, and within how many steps the checks saw
/// what began after these; empty if it was not measured.
std::string overhead_words(const Overhead& overhead);

}  // namespace ddpscope
