#include "plugin/stack_sites.h"

namespace ddpscope {

Site StackSites::site(StackId stack) { return symbolizer_.site("", table_.frames(stack)); }

}  // namespace ddpscope
