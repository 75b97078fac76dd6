#pragma once

#include <ddpscope/ops/communicator.h>

#include <functional>
#include <string>

namespace ddpscope::communicator {

/// Of `register_communicator`; null if there is none.
CommunicatorPtr registered(const std::string& name);

/// One communicator per name for as long as it stands for the same object, because a communicator
/// counts calls; `make` makes it.
CommunicatorPtr kept_for(const std::string& name, const void* object,
                         const std::function<CommunicatorPtr()>& make);

}  // namespace ddpscope::communicator
