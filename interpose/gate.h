#pragma once

// The gate's own functions. It is found at run time: a program may lack it.

#ifdef __cplusplus
extern "C" {
#endif

/// Sends calls of the LibTorch function `name` to `hook`, after `*original` got the function that
/// would have been called. 0 when the gate does not stand before it or no library defines it.
int ddpscope_gate_hook(const char* name, void* hook, void** original);

/// Sends calls of `name` straight to LibTorch again.
void ddpscope_gate_release(const char* name);

/// The gate's own address of `name`, to be compared with what the program's calls are bound to.
void* ddpscope_gate_entry(const char* name);

#ifdef __cplusplus
}
#endif
