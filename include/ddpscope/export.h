#pragma once

/// Marks what the library exports; everything else in it is hidden.
#define DDPSCOPE_API __attribute__((visibility("default")))
