#include <cstdio>

#include "config/setting_table.h"

int main() {
  const std::string page = ddpscope::settings_page();
  return std::fwrite(page.data(), 1, page.size(), stdout) == page.size() ? 0 : 1;
}
