#pragma once

#include <pthread.h>

#include "hooks/near_tls.h"

namespace ddpscope {

/// One `T` for each thread, which it may ask for until its very end: what is `thread_local` and has
/// a destructor is gone before the program's own objects of the thread, and on the main thread
/// before its static ones, and those may still use LibTorch. On the heap: a library that is opened
/// late gets only a little thread-local storage.
template <class T>
class PerThread {
 public:
  static T& get() {
    if (mine_ == nullptr) make();
    return *mine_;
  }

 private:
  struct Key {
    pthread_key_t key{};
    bool made = pthread_key_create(&key, destroy) == 0;  // else each thread leaves its `T` behind
  };

  static void make() {
    static const Key key;
    mine_ = new T;
    if (key.made) pthread_setspecific(key.key, mine_);
  }

  // After the thread's destructors; a `T` that is made later still is destroyed in a next round.
  static void destroy(void* object) noexcept {
    mine_ = nullptr;
    delete static_cast<T*>(object);
  }

  DDPSCOPE_NEAR static inline thread_local T* mine_ = nullptr;
};

}  // namespace ddpscope
