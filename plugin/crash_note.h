#pragma once

#include <cstdint>
#include <string_view>

#include "model/finding.h"

namespace ddpscope::crash_note {

/// The rank file of this process takes notes from now on.
void open(int descriptor) noexcept;
/// No more of signals: the process said by itself why it ends.
void close() noexcept;

/// Appends this line, of a process that ends before its worker came to write it.
void write_line(std::string_view line) noexcept;

/// Where the rank stood in `step`: the members of a progress record that name it, as JSON text with
/// a comma before it. One thread at a time.
void set_place(std::int64_t step, std::string_view members) noexcept;

/// Appends a progress line that says that `signal` arrived in this step and phase. Made for signal
/// handlers: it only calls clock_gettime(2), getpid(2) and write(2). Does nothing in a forked child
/// and after 16 of them. `signal` is one that the system has.
void write_signal(int signal, std::int64_t step, Phase phase) noexcept;

}  // namespace ddpscope::crash_note
