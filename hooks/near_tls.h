#pragma once

/// For thread-local variables that hooks read on every call: found without a function call. Only
/// small ones: a library that is opened late gets little of such storage.
#define DDPSCOPE_NEAR __attribute__((tls_model("initial-exec")))
