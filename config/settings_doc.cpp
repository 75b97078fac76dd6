#include <string>

#include "config/setting_table.h"

namespace ddpscope {
namespace {
constexpr std::string_view kPageHead = R"(# Settings

<!-- Generated from config/settings.def by ddpscope_settings_doc; edit the table, not this page. -->

## The variable `DDPSCOPE`

- `0`, `off`, `false` or `no`: off. This wins over everything else.
- Unset or empty: says nothing. `attach_diagnostics` runs with defaults, with
  `Activation::kEnvironment` it stays dormant, and the preload library stays off.
- `1`, `on`, `true` or `yes`: on with defaults.
- Anything else: `key=value` pairs joined by `:`. A literal colon in a value is written `\:`.

```console
$ DDPSCOPE=level=stacks:report_dir=out/%h:checks=*,-perf-* ./train
$ DDPSCOPE=help=1 ./train
```

The words take upper and lower case and may stand among pairs: an off word switches off, an on word
adds nothing. Blanks around keys and values and empty entries are ignored. A key that is given twice
has its last value. Values hold no control characters and at most 16384 bytes. An unknown key, an
unknown check id, an option that its check does not have and a value out of range are errors:
nothing is guessed.

Order of precedence: off word, then environment, then `Options`, then the file named by
`config_file`, then the default. The first record of each report file lists every value with its
source. The first attach decides: what `Options` of a later one ask for beyond that is held to the
same rules and not taken, and one line says so.

A `config_file` has one `key=value` per line; a `#` at the begin of a line or after a blank starts a
comment, a colon needs no backslash. It is a regular file of at most 1 MiB and cannot name another
`config_file`.

## Keys

| Key | Value | Default | Meaning |
|---|---|---|---|
)";

constexpr std::string_view kPageTail =
    R"(| `<id>.<option>` | text | | One option of one check; see `docs/checks/<id>.md`. |

`checks` starts from nothing, or from all if its first glob is switched off: `checks=-perf-*` runs
all but that group. A glob that matches no check is an error, except one with a wildcard after `-`.
In globs `*` is any text and `?` any one byte.

In `report_dir` `%%` is a percent sign; bytes of the host other than letters, digits, `.`, `-` and
`_` become `_`. A relative one begins where the first model is attached; of an unmodified program,
where that was started.

## Rank and world size

The first pair that is set and right decides; else rank 0 of 1.

| Rank, world size | Used |
|---|---|
| `RANK`, `WORLD_SIZE` | always |
| `SLURM_PROCID`, `SLURM_NTASKS` | where `SLURM_STEP_ID` is set |
| `OMPI_COMM_WORLD_RANK`, `OMPI_COMM_WORLD_SIZE` | always |
| `PMI_RANK`, `PMI_SIZE` | always |

The local rank is the first right one of `LOCAL_RANK`, `SLURM_LOCALID`, `OMPI_COMM_WORLD_LOCAL_RANK`
and `MPI_LOCALRANKID`, else 0. A value that is no number, negative, or not below the world size is
not used, and one line says so.

The ranks of this host are as many as the first right one of `LOCAL_WORLD_SIZE`,
`OMPI_COMM_WORLD_LOCAL_SIZE` and `MPI_LOCALNRANKS` says; without them all of the run where
`MASTER_ADDR` is this host, else one. They share the cores that
[perf-thread-oversubscription](checks/perf-thread-oversubscription.md) counts.

The ranks of one run are those whose `DDPSCOPE_RUN_ID` is equal, which `ddpscope run` sets. Without
it `PMIX_NAMESPACE` decides, then `SLURM_JOB_ID`, `SLURM_STEP_ID` and `SLURM_RESTART_COUNT`, then
`TORCHELASTIC_RUN_ID` with `TORCHELASTIC_RESTART_COUNT` and `MASTER_PORT`; without all of these they
are the ranks that one process started on one host, with one `MASTER_ADDR` and `MASTER_PORT`. Where
each has a wrapper of its own (`timeout`, a subshell), they are those of one user, host,
`WORLD_SIZE` and `MASTER_PORT` that start within a minute of the first and while it lives.

## Suppressions

The file named by `suppressions` has one line per entry; the reason is required:

```
ID[:model=GLOB][:module=GLOB][:subject=GLOB][:op=GLOB][:until=YYYY-MM-DD]  # reason
```

`ID` is a check id, a glob of ids or a fingerprint. A field that is left out matches everything, an
empty one only the empty text: `module=` is the root. The last day of `until` is still in force. A
literal colon is written `\:`. Lines that begin with `#` are comments.

At the end of the run each line that had no effect is named: those past their last day, and those
that matched no finding of any rank, if all ranks came to their end. `ddpscope merge` and `show`
are given the file (`--suppressions FILE`), also for what they find over all ranks; they open none
that a record names. `ddpscope run` takes the one of its environment.

```
suppressed: 1
  suppression: ci.txt:4: grad-missing:module=decoder.*: matched no finding
```
)";

std::string table_cell(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '|') out += '\\';
    out += c;
  }
  return out;
}
}  // namespace

std::string settings_help() {
  std::string out = "DDPSCOPE=key=value:key=value, or 0 (off), or 1 (on with defaults)\n";
  for (const SettingRow& row : setting_table()) {
    out += "  " + std::string(row.key) + ": " + std::string(row.allowed) + " (default " +
           (row.default_text.empty() ? "none" : row.default_text) + ")\n      " +
           std::string(row.help) + "\n";
  }
  return out + "  <id>.<option>: one option of one check; ddpscope explain <id>\n";
}

std::string settings_page() {
  std::string out(kPageHead);
  for (const SettingRow& row : setting_table()) {
    out += "| `" + std::string(row.key) + "` | " + table_cell(row.allowed) + " | " +
           (row.default_text.empty() ? "none" : "`" + row.default_text + "`") + " | " +
           table_cell(row.help) + " |\n";
  }
  return out + std::string(kPageTail);
}

}  // namespace ddpscope
