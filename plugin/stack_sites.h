#pragma once

#include "checks/site_source.h"
#include "stacks/stack_table.h"
#include "stacks/symbolizer.h"

namespace ddpscope {

/// The stacks that training threads take, and their frames as the worker names them.
class StackSites final : public SiteSource {
 public:
  StackTable& table() noexcept { return table_; }
  Site site(StackId stack) override;

 private:
  StackTable table_;
  Symbolizer symbolizer_;
};

}  // namespace ddpscope
