#include <fmt/format.h>

#include "report/escape.h"
#include "report/html_sections.h"
#include "report/html_style.h"
#include "report/report_writer.h"
#include "report/wording.h"

namespace ddpscope {
namespace {

constexpr std::string_view kHead =
    "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
    "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
    "style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'\">\n"
    "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
    "<meta name=\"referrer\" content=\"no-referrer\">\n";

std::string run_words(const MergedReport& report) {
  if (report.ranks.empty()) return {};
  const RunRecord& run = report.ranks.front().run;
  std::string words = "Run " + run.run_id;
  if (!run.started.empty()) words += ", started " + run.started;
  if (!run.torch_version.empty()) words += ", LibTorch " + run.torch_version;
  if (!run.cuda.empty()) words += ", CUDA " + run.cuda;
  if (!run.nccl.empty()) words += ", NCCL " + run.nccl;
  return words;
}

}  // namespace

std::string render_html(const MergedReport& report, const RenderOptions&) {
  std::string page(kHead);
  page += fmt::format("<title>ddpscope: {}</title>\n<style>{}</style>\n</head>\n<body>\n",
                      count_words(report), kHtmlStyle);
  page += "<header>\n<h1>ddpscope report</h1>\n" + html::verdict(report) + html::tiles(report) +
          html::contents(report) + "</header>\n<main>\n";
  page += html::steps(report) + html::findings(report) + html::curves(report);
  page += html::coverage(report) + html::ranks(report);
  page += html::models(report) + html::settings(report);
  page += html::leftover_suppressions(report) + html::input_remarks(report);
  page += fmt::format(
      "</main>\n<footer>{}{}</footer>\n</body>\n</html>\n", escape_html(run_words(report)),
      report.tool_version.empty() ? ""
                                  : ". Written by ddpscope " + escape_html(report.tool_version));
  return page;
}

}  // namespace ddpscope
