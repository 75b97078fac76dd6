#include <string>

#include "config/setting_table.h"
#include "config/text.h"
#include "tests/support/catch.h"

TEST_CASE("docs/settings.md is what the table prints", "[config]") {
  const auto page = ddpscope::read_text_file(DDPSCOPE_SETTINGS_PAGE, 1 << 20);
  REQUIRE(page.failure.empty());
  INFO(
      "renew it: cmake --build build --target ddpscope_settings_doc, "
      "then build/config/ddpscope_settings_doc > docs/settings.md");
  CHECK(page.text == ddpscope::settings_page());
}

TEST_CASE("keys of the table are unique and told apart from check options", "[config]") {
  const auto& table = ddpscope::setting_table();
  for (const auto& row : table) {
    INFO(row.key);
    CHECK(ddpscope::find_setting(row.key) == &row);
    CHECK(row.key.find_first_not_of("abcdefghijklmnopqrstuvwxyz_") == std::string::npos);
    CHECK_FALSE(row.help.empty());
  }
  CHECK(ddpscope::find_setting("help") == nullptr);
  CHECK(table.size() == 23);
}
