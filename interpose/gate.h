#pragma once

// The gate's own functions. It is found at run time: a program may lack it.

#ifdef __cplusplus
extern "C" {
#endif

/// Sends calls of the LibTorch function `name` to `hook`; returns the function that would have been
/// called, or null when the gate does not stand before it or LibTorch does not define it.
void* ddpscope_gate_hook(const char* name, void* hook);

/// Sends calls of `name` straight to LibTorch again.
void ddpscope_gate_release(const char* name);

/// The gate's own address of `name`, to be compared with what the program's calls are bound to.
void* ddpscope_gate_entry(const char* name);

#ifdef __cplusplus
}
#endif
