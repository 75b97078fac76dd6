#pragma once

/// Of functions that run in every step, also where hooks rest: they lie together, in few pages and
/// lines. The program's own code and data have taken the caches since the last step.
#define DDPSCOPE_HOT __attribute__((hot))
