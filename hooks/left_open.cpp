#include "hooks/left_open.h"

#include "hooks/write_scope.h"

namespace ddpscope {

void tell_left_open() noexcept {
  tell_operator_left_open();  // stands inside the write, and a forward inside no backward
  WriteScope::tell_left_open();
  tell_backward_left_open();
}

}  // namespace ddpscope
