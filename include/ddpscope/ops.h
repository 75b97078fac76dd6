#pragma once

/// The operators: ordinary functions and modules on tensors, with or without
/// `attach_diagnostics`. docs/operators.md tells how to use them.
#include <ddpscope/ops/clip_grad.h>
#include <ddpscope/ops/communicator.h>
#include <ddpscope/ops/grad_scaler.h>
#include <ddpscope/ops/op_facts.h>
#include <ddpscope/ops/sync_batch_norm.h>
