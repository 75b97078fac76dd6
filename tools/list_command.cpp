#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>

#include "checks/check_table.h"
#include "records/words.h"
#include "tools/command.h"

namespace ddpscope {
namespace {
std::string table_as_text() {
  std::string text;
  for (const auto& row : check_table()) {
    text += fmt::format("{:<26} {:<8} {:<7} {}\n", row.id, word(row.severity),
                        level_name(row.level), row.summary);
  }
  return text;
}

std::string table_as_json() {
  auto list = nlohmann::ordered_json::array();
  for (const auto& row : check_table()) {
    list.push_back({{"id", row.id},
                    {"severity", word(row.severity)},
                    {"level", level_name(row.level)},
                    {"needs", row.needs},
                    {"summary", row.summary}});
  }
  return list.dump(2) + '\n';
}
}  // namespace

CommandAction make_list_command(CLI::App& app) {
  const auto json = std::make_shared<bool>(false);
  app.add_flag("--json", *json, "Print a JSON list");
  return [json](const CommandContext&) {
    print(*json ? table_as_json() : table_as_text());
    return 0;
  };
}

}  // namespace ddpscope
