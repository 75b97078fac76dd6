#pragma once

// The gate's own functions. It is found at run time: a program may lack it.

#ifdef __cplusplus
extern "C" {
#endif

/// Sends calls of the LibTorch function `name` to `hook`, after `*original` got the function that
/// would have been called. 0 when the gate does not stand before it or no library defines it.
int ddpscope_gate_hook(const char* name, void* hook, void** original);

/// What calls of `name` jump through; NULL where the gate does not stand before it. A hook may be
/// taken out of it and put back: meanwhile it holds what `ddpscope_gate_hook` gave as `original`.
void** ddpscope_gate_slot(const char* name);

/// The gate's own address of `name`, to be compared with what the program's calls are bound to.
void* ddpscope_gate_entry(const char* name);

#ifdef __cplusplus
}
#endif
