// The modules of each model as a tree, with what they hold and how many findings are on them.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "model/rank_words.h"
#include "records/words.h"
#include "report/escape.h"
#include "report/html_sections.h"
#include "report/wording.h"

namespace ddpscope::html {
namespace {
constexpr std::size_t kMostModules = 400;  // of all models
constexpr std::size_t kMostLetters = 120;

struct Marks {
  std::array<std::int64_t, 3> counts{};  ///< by severity
  std::string ids;
};
/// By model and path.
using MarksByModule = std::map<std::pair<std::string_view, std::string_view>, Marks>;

MarksByModule marks_in(const MergedReport& report) {
  MarksByModule marks;
  for (const Finding& finding : report.findings) {
    if (finding.suppressed || finding.model.empty()) continue;
    Marks& own = marks[{finding.model, finding.module_path}];
    ++own.counts[static_cast<std::size_t>(finding.severity)];
    if (own.ids.find(finding.id) == std::string::npos) {
      own.ids += (own.ids.empty() ? "" : ", ") + finding.id;
    }
  }
  return marks;
}

std::string mark_html(const Marks& marks) {
  std::string html;
  for (const Severity severity : {Severity::kError, Severity::kWarning, Severity::kNote}) {
    const std::int64_t count = marks.counts[static_cast<std::size_t>(severity)];
    if (count == 0) continue;
    html += fmt::format(" <span class=\"badge {}\" title=\"{}\">{}</span>", word(severity),
                        escape_html(marks.ids), counted(count, word(severity)));
  }
  return html;
}

std::string_view last_name(std::string_view path) { return path.substr(path.rfind('.') + 1); }

std::size_t depth_of(std::string_view path) {
  std::size_t depth = path.empty() ? 0 : 1;
  for (const char letter : path) depth += letter == '.' ? 1 : 0;
  return depth;
}

std::string held_words(const ModuleRecord& module) {
  if (module.parameters == 0) return "";
  std::string words = " · " + counted(module.elements, "element");
  if (module.trainable == 0) return words + ", frozen";
  if (module.trainable < module.parameters) {
    words += fmt::format(", {} of {} parameters trainable", module.trainable, module.parameters);
  }
  return words;
}

std::string module_html(const ModelRecord& model, const ModuleRecord& module, const Marks& marks) {
  constexpr std::size_t kDeepest = 24;
  const std::string_view name = module.path.empty() ? model.name : last_name(module.path);
  return fmt::format(
      "<li style=\"padding-left:{}px\"><code title=\"{}\">{}</code> <span "
      "class=\"soft\">{}{}</span>{}</li>\n",
      18 * std::min(depth_of(module.path), kDeepest),
      escape_html(shortened(module.path, kMostLetters)), escape_html(shortened(name, kMostLetters)),
      escape_html(shortened(module.class_name, kMostLetters)), held_words(module),
      mark_html(marks));
}
}  // namespace

std::string module_trees(const MergedReport& report) {
  const MarksByModule marks = marks_in(report);
  std::string html;
  std::size_t shown = 0;
  for (const ModelRecord& model : report.models) {
    std::string items;
    bool is_marked = false;
    std::size_t of_model = 0;
    for (const ModuleRecord& module : model.tree) {
      if (shown == kMostModules) break;
      const auto found = marks.find({model.name, module.path});
      is_marked |= found != marks.end();
      items += module_html(model, module, found == marks.end() ? Marks{} : found->second);
      ++shown;
      ++of_model;
    }
    if (items.empty()) continue;
    const std::int64_t more = model.modules - static_cast<std::int64_t>(of_model);
    if (more > 0) items += fmt::format("<li class=\"soft\">{} more</li>\n", more);
    html += fmt::format(
        "<details{}><summary>Modules of {}</summary>\n<ul class=\"tree\">\n{}</ul>"
        "</details>\n",
        is_marked ? " open" : "", escape_html(shortened(model.name, kMostLetters)), items);
  }
  return html;
}

}  // namespace ddpscope::html
