#pragma once

#include "checks/site_source.h"
#include "stacks/stack_table.h"
#include "stacks/symbolizer.h"

namespace ddpscope {

/// The stacks that training threads take, and their frames as the worker names them.
class StackSites final : public SiteSource {
 public:
  using OperatorCalledBy = std::string(std::string_view function);

  explicit StackSites(OperatorCalledBy& operator_called_by)
      : operator_called_by_(operator_called_by) {}
  StackTable& table() noexcept { return table_; }
  Site site(StackId stack) override;
  std::string operator_called_by(std::string_view function) override {
    return operator_called_by_(function);
  }

 private:
  OperatorCalledBy& operator_called_by_;
  StackTable table_;
  Symbolizer symbolizer_;
};

}  // namespace ddpscope
