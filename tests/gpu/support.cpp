// SPDX-License-Identifier: Apache-2.0
#include "gpu/support.hpp"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <thread>

namespace convt::testing {

void in_parallel(std::size_t count, const std::function<void(std::size_t, cudaStream_t)>& f) {
  if (count == 0) return;
  std::atomic<std::size_t> next{0};
  const auto work = [&] {
    const Stream stream;
    for (std::size_t i = next++; i < count; i = next++) f(i, stream);
  };
  std::vector<std::thread> threads(std::clamp<std::size_t>(std::thread::hardware_concurrency(), 1, count));
  for (std::thread& thread : threads) thread = std::thread(work);
  for (std::thread& thread : threads) thread.join();
}

std::size_t variable(const char* name, std::size_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::stoul(text);
}

}  // namespace convt::testing
