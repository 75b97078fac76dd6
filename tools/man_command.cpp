#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "tools/command.h"
#include "tools/command_tree.h"

namespace ddpscope {
namespace {
/// Text of a page: no letter of it is a request of roff.
std::string roff(std::string_view text) {
  std::string result;
  for (const char letter : text) {
    if (letter == '\\') {
      result += "\\e";
    } else if (letter == '-') {
      result += "\\-";
    } else if (letter == '\'') {
      result += "\\(aq";
    } else if (letter == '.' && result.empty()) {
      result += "\\&.";
    } else {
      result += letter == '\n' ? ' ' : letter;
    }
  }
  return result;
}

/// `\fB--json\fR \fIFILE\fR`
std::string option_words(const OptionHelp& option) {
  std::string text;
  for (const auto& name : option.names) {
    text += fmt::format("{}\\fB{}\\fR", text.empty() ? "" : ", ", roff(name));
  }
  if (option.value.empty()) return text;
  return text + fmt::format("{}\\fI{}\\fR", text.empty() ? "" : " ", roff(option.value));
}

std::string synopsis_of(const CommandHelp& command) {
  std::string text = fmt::format(".B ddpscope {}\n", roff(command.name));
  std::string arguments = "[options]";
  for (const auto& option : command.options) {
    if (!option.names.empty() && !option.is_required) continue;
    arguments += ' ' + option_words(option) + (option.is_repeated ? "..." : "");
  }
  if (takes_program(command.name)) arguments += " \\-\\- \\fIPROG ARGS\\fR...";
  return text + arguments + "\n";
}

std::string section_of(const CommandHelp& command) {
  std::string text = fmt::format(".SS {}\n{}.PP\n{}.\n", roff(command.name), synopsis_of(command),
                                 roff(command.summary));
  for (const auto& option : command.options) {
    if (option.names == std::vector<std::string>{"-h", "--help"}) continue;
    text += fmt::format(".TP\n{}\n{}.\n", option_words(option), roff(option.summary));
  }
  if (!command.footer.empty()) text += fmt::format(".PP\n{}\n", roff(command.footer));
  return text;
}

constexpr std::string_view kEnd = R"(.SH EXIT STATUS
.TP
.B 0
Clean.
.TP
.B 1
Findings at or above the severity of \fB\-\-fail\-on\fR.
.TP
.B 2
Wrong usage.
.TP
.B 3
Unreadable input, or input of a newer schema.
.TP
.B 4
Incomplete: ranks are missing, or a check was blocked that the setting \fBchecks\fR spells out.
.TP
.B 5
Internal fault.
.PP
2, 3 and 5 win over 1, and 1 over 4. \fBrun\fR returns the code of the program where that is not 0.
.SH ENVIRONMENT
.TP
.B DDPSCOPE
Switches the diagnostics on or off and holds their settings, \fIkey\fR=\fIvalue\fR joined by colons.
\fBDDPSCOPE=help=1\fR before a watched program prints every key.
)";
}  // namespace

CommandAction make_man_command(CLI::App& app) {
  return [&app](const CommandContext&) {
    std::string page =
        ".TH DDPSCOPE 1 \"\" \"ddpscope " DDPSCOPE_TOOL_VERSION
        "\" \"User commands\"\n.SH NAME\n"
        "ddpscope \\- diagnostics for data\\-parallel training with LibTorch\n"
        ".SH SYNOPSIS\n.B ddpscope\n\\fICOMMAND\\fR [options] [arguments]\n.SH COMMANDS\n";
    for (const auto& command : command_tree(app)) page += section_of(command);
    print(page + std::string(kEnd));
    return 0;
  };
}

}  // namespace ddpscope
