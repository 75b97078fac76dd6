#pragma once

#include <map>
#include <string>

namespace ddpscope {

/// Installs every event source once and tests each: source name -> "live", "fallback" or "absent".
/// Sources are: tree, forward, op, training_op, graph, gradient, optimizer, zero_gradient, archive,
/// buffer, error, write, saved, value, device_value, target, loader, convolution, wait,
/// collective, reducer.
std::map<std::string, std::string> install_sources();

class Capture;

/// Tells which of the functions that the sources need could not be taken.
void tell_refused_hooks(Capture& capture);

/// What is wrong with running this build beside the LibTorch of the process; empty when it fits.
std::string torch_mismatch();

}  // namespace ddpscope
