#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>

#include "checks/check_table.h"
#include "config/text.h"
#include "records/words.h"
#include "tools/check_pages.h"
#include "tools/command.h"
#include "tools/exit_status.h"

namespace ddpscope {
namespace {
[[noreturn]] void refuse(const std::string& id) {
  std::vector<std::string_view> ids;
  for (const auto& row : check_table()) ids.push_back(row.id);
  const auto near = nearest(id, ids);
  const auto hint = near.empty() ? std::string("all ids: ddpscope list")
                                 : fmt::format("did you mean \"{}\"?", near);
  throw CommandError(ExitStatus::kUsage,
                     fmt::format("no check is named {}; {}", ddpscope::quoted(id), hint));
}

int explain(const std::string& id) {
  const auto* row = find_check(id);
  if (row == nullptr) refuse(id);
  const auto pages = check_pages();
  const auto page = std::ranges::find(pages, std::string_view(id), &CheckPage::id);
  if (page == pages.end()) {
    print(fmt::format("# {}\n\n{}\n\nSeverity: {}.\n", row->id, row->summary, word(row->severity)));
  } else {
    print(page->text);
  }
  return 0;
}
}  // namespace

CommandAction make_explain_command(CLI::App& app) {
  const auto id = std::make_shared<std::string>();
  app.add_option("ID", *id, "The id of a check, as in the brackets of a finding")->required();
  return [id](const CommandContext&) { return explain(*id); };
}

}  // namespace ddpscope
