#include <fmt/format.h>

#include <map>

#include "records/words.h"
#include "report/escape.h"
#include "report/html_sections.h"
#include "report/wording.h"

namespace ddpscope::html {
namespace {

using ByFingerprint = std::map<std::string_view, const Finding*>;

std::string frames_table(const std::vector<const Frame*>& frames) {
  std::string rows;
  for (const Frame* frame : frames) {
    rows += fmt::format("<tr><td class=\"mono\">{}</td><td class=\"mono\">{}</td></tr>\n",
                        escape_html(frame->function), escape_html(place_of(*frame)));
    if (frame->source.empty()) continue;
    rows += fmt::format("<tr><td colspan=\"2\"><code>{}</code></td></tr>\n",
                        escape_html(frame->source));
  }
  return "<div class=\"scroll\"><table><tbody>\n" + rows + "</tbody></table></div>\n";
}

/// The program's own callers of `main` in sight, frames of libraries folded.
std::string frames_html(const Site& site, const Frame* main) {
  std::vector<const Frame*> own;
  std::vector<const Frame*> of_libraries;
  for (const auto& frame : site.frames) {
    if (&frame != main) (frame.library ? of_libraries : own).push_back(&frame);
  }
  std::string html = own.empty() ? "" : frames_table(own);
  if (of_libraries.empty()) return html;
  return html + fmt::format("<details><summary>Frames of libraries: {}</summary>{}</details>\n",
                            of_libraries.size(), frames_table(of_libraries));
}

std::string sites_html(const Finding& finding) {
  std::string html;
  for (const auto& site : finding.sites) {
    const SitePlace at = place_of(site);
    html += fmt::format("<p><b>{}</b>", escape_html(site.role));
    if (!at.function.empty()) html += fmt::format(" <code>{}</code>", escape_html(at.function));
    html += fmt::format(" <span{}>{}</span></p>\n", at.frame == nullptr ? " class=\"soft\"" : "",
                        escape_html(at.place));
    if (at.frame != nullptr && !at.frame->source.empty()) {
      html += fmt::format("<pre class=\"source\">{}</pre>\n", escape_html(at.frame->source));
    }
    html += frames_html(site, at.frame);
  }
  return html.empty() ? html : "<h4>Where</h4>\n" + html;
}

std::string fixes_html(const Finding& finding) {
  if (finding.fixes.empty()) return {};
  std::string html = "<h4>What to do</h4>\n<ul class=\"fixes\">\n";
  for (const auto& fix : fixes_in_order(finding)) {
    const std::string_view colour =
        fix.applicability == Applicability::kSafe
            ? "safe"
            : (fix.applicability == Applicability::kLikely ? "plain" : "warning");
    html += fmt::format("<li><span class=\"badge {}\">{}</span> {}</li>\n", colour,
                        applicability_words(fix.applicability), escape_html(fix.text));
  }
  return html + "</ul>\n";
}

std::string row(std::string_view key, const std::string& value) {
  return fmt::format("<tr><th scope=\"row\">{}</th><td>{}</td></tr>\n", key, escape_html(value));
}

std::string facts_html(const Finding& finding) {
  std::string rows;
  if (!finding.subject.empty()) rows += row("subject", finding.subject);
  rows += row("phase", std::string(word(finding.phase)));
  rows += row("confidence",
              fmt::format("{}, {}", word(finding.confidence), word(finding.evidence_status)));
  if (finding.last_step > finding.first_step) {
    rows += row("seen", fmt::format("{} times in steps {}-{}", finding.occurrences,
                                    finding.first_step, finding.last_step));
  }
  for (const auto& fact : finding.facts) rows += row(escape_html(fact.key), fact_words(fact.value));
  rows += row("fingerprint", finding.fingerprint);
  return fmt::format(
      "<details{}><summary>Evidence</summary><div class=\"scroll\"><table class=\"facts\"><tbody>\n"
      "{}</tbody></table></div></details>\n",
      finding.severity == Severity::kNote ? "" : " open", rows);
}

std::string head_html(const Finding& finding, bool with_model) {
  const std::string place = place_of(finding, with_model);
  std::string where = fmt::format("{}, step {}", rank_words(ranks_of(finding)), finding.step);
  if (!finding.op.empty()) where += fmt::format(" · {}", finding.op);
  return fmt::format(
      "<div class=\"top\"><span class=\"badge {0}\">{0}</span><h3>{1}</h3>"
      "<span class=\"soft small\">{2}</span>{3}<code class=\"id\">{5}</code></div>\n<p "
      "class=\"what\">{4}</p>\n",
      word(finding.severity), escape_html(place.empty() ? "the run" : place), escape_html(where),
      finding.suppressed ? "<span class=\"badge plain\">suppressed</span>" : "",
      escape_html(finding.what), escape_html(finding.id));
}

std::string finding_html(const Finding& finding, const std::string& inner, bool with_model,
                         std::string_view anchor = "") {
  std::string html = fmt::format("<article class=\"finding {}{}\"{}>\n", word(finding.severity),
                                 finding.suppressed ? " suppressed" : "", anchor);
  html += head_html(finding, with_model);
  if (finding.suppressed && !finding.suppression_reason.empty()) {
    html += fmt::format("<p class=\"soft\">Suppressed: {}</p>\n",
                        escape_html(finding.suppression_reason));
  }
  if (!finding.why.empty()) {
    html += fmt::format("<h4>Why</h4>\n<p>{}</p>\n", escape_html(finding.why));
  }
  html += fixes_html(finding) + sites_html(finding) + facts_html(finding) + inner;
  html += fmt::format("<p class=\"soft small\"><code>ddpscope explain {}</code></p>\n</article>\n",
                      escape_html(finding.id));
  return html;
}

std::string finding_row(const Finding& finding, bool with_model) {
  constexpr std::size_t kMostWhat = 120;
  constexpr std::size_t kMostPlace = 60;
  return fmt::format(
      "<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>\n", word(finding.severity),
      escape_html(shortened(finding.id, kMostPlace)),
      escape_html(shortened(place_of(finding, with_model), kMostPlace)),
      escape_html(shortened(fmt::format("{}, step {}", rank_words(ranks_of(finding)), finding.step),
                            kMostPlace)),
      escape_html(shortened(finding.what, kMostWhat)));
}

/// Findings in full, then as rows, then as a number: so that a page stays small enough to be read.
class FindingsPage {
 public:
  FindingsPage(const MergedReport& report, std::size_t full_bytes, std::size_t row_bytes)
      : with_model_(report.models.size() > 1), full_bytes_(full_bytes), row_bytes_(row_bytes) {
    for (const auto& finding : report.findings) index_[finding.fingerprint] = &finding;
  }

  void add(const Incident& incident) {
    const auto primary = index_.find(incident.primary);
    if (primary == index_.end()) return;
    std::string members;
    std::size_t shown = 0;
    for (const auto& member : incident.members) {
      const auto found = index_.find(member);
      if (found == index_.end()) continue;
      if (html_.size() + members.size() > full_bytes_) {
        add_row(*found->second);
      } else {
        members += finding_html(*found->second, "", with_model_);
        ++shown;
      }
    }
    if (shown > 0) {
      members =
          fmt::format("<details><summary>It led to {} more{}</summary>\n{}</details>\n",
                      incident.members.size(),
                      shown < incident.members.size() ? ", some in the table below" : "", members);
    }
    add(*primary->second, members);
  }

  void add_suppressed(const MergedReport& report) {
    std::string suppressed;
    for (const auto& finding : report.findings) {
      if (!finding.suppressed) continue;
      if (html_.size() + suppressed.size() > full_bytes_) {
        add_row(finding);
      } else {
        suppressed += finding_html(finding, "", with_model_);
      }
    }
    if (suppressed.empty()) return;
    html_ += fmt::format("<details><summary>{} suppressed</summary>\n{}</details>\n",
                         report.suppressed, suppressed);
  }

  std::string text() const {
    if (rows_.empty()) return html_;
    std::string text =
        html_ +
        fmt::format(
            "<details class=\"card more\"><summary>{} more findings</summary><div class=\"scroll\">"
            "<table><thead><tr><th scope=\"col\">Severity</th><th scope=\"col\">Check</th>"
            "<th scope=\"col\">Where</th><th scope=\"col\">Ranks and step</th>"
            "<th scope=\"col\">What</th></tr></thead><tbody>\n{}</tbody></table></div>",
            row_count_ + left_out_, rows_);
    if (left_out_ > 0) {
      text += fmt::format(
          "<p>{} more are in report.json; <code>ddpscope show --id GLOB</code> "
          "prints them.</p>",
          left_out_);
    }
    return text + "</details>\n";
  }

 private:
  void add(const Finding& finding, const std::string& inner) {
    if (html_.size() > full_bytes_) return add_row(finding);
    const std::string_view anchor = html_.empty() ? " id=\"f1\"" : "";
    html_ += finding_html(finding, inner, with_model_, anchor);
  }

  void add_row(const Finding& finding) {
    if (rows_.size() > row_bytes_) {
      ++left_out_;
      return;
    }
    rows_ += finding_row(finding, with_model_);
    ++row_count_;
  }

  ByFingerprint index_;
  bool with_model_;
  std::size_t full_bytes_;
  std::size_t row_bytes_;
  std::string html_;
  std::string rows_;
  std::size_t row_count_ = 0;
  std::size_t left_out_ = 0;
};

}  // namespace

std::string findings(const MergedReport& report) {
  constexpr std::size_t kFullBytes = 600'000;
  constexpr std::size_t kRowBytes = 900'000;
  FindingsPage page(report, kFullBytes, kRowBytes);
  for (const auto& incident : report.incidents) page.add(incident);
  page.add_suppressed(report);
  std::string html = page.text();
  if (html.empty()) return html;
  return "<section aria-labelledby=\"findings\">\n<h2 id=\"findings\">Findings</h2>\n" + html +
         "</section>\n";
}

}  // namespace ddpscope::html
