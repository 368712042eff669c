// SPDX-License-Identifier: Apache-2.0
// State that all threads of the process share. It is there before any code of the library runs and still there when
// threads outlive exit(): initialised by constants, never destroyed.
//     constinit Kept<Cache> cache;
//     const Keeper<cache> keeper;
// What it holds is freed at exit and at dlclose(). fork() waits until no other thread is inside, so that the child
// finds it whole and unlocked. T has lock(), unlock() and clear().
#pragma once

#include <pthread.h>

namespace convt::core {

template <class T>
union Kept {
  T object;

  constexpr Kept() : object() {}
  Kept(const Kept&) = delete;
  Kept& operator=(const Kept&) = delete;
  ~Kept() {}  // NOLINT(modernize-use-equals-default): a default would be deleted
};

template <auto& kept>
class Keeper {
 public:
  Keeper() {
    pthread_atfork([] { kept.object.lock(); }, [] { kept.object.unlock(); }, [] { kept.object.unlock(); });
  }
  Keeper(const Keeper&) = delete;
  Keeper& operator=(const Keeper&) = delete;
  ~Keeper() { kept.object.clear(); }
};

}  // namespace convt::core
