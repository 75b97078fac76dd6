#pragma once

#include <ddpscope/ops/communicator.h>

#include <exception>
#include <string>

namespace ddpscope::communicator {

/// Runs `sum` on the record, or on a copy in host memory that is copied back: for backends that
/// reach no other device.
template <class Sum>
void sum_on_host(at::Tensor& record, const Sum& sum) {
  if (record.is_cpu()) {
    sum(record);
    return;
  }
  at::Tensor staged = record.cpu();
  sum(staged);
  record.copy_(staged);
}

/// Runs `operation` over the group; what it throws is told with both.
template <class Operation>
void run(const char* what, const Communicator& group, const Operation& operation) {
  const auto place = [&] {
    return std::string(what) + " over " + group.name() + ", rank " + std::to_string(group.rank()) +
           " of " + std::to_string(group.size());
  };
  try {
    operation();
  } catch (c10::Error& error) {
    error.add_context("in " + place());
    throw;
  } catch (const std::exception& error) {
    TORCH_CHECK(false, place(), ": ", error.what());
  }
}

void check_place(int rank, int size);

}  // namespace ddpscope::communicator
