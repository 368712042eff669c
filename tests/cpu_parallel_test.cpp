// SPDX-License-Identifier: Apache-2.0
// The CPU engine and threads: its bits depend neither on how many work in a call nor on who else calls.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <initializer_list>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "convt/convt.h"
#include "support/golden.hpp"
#include "support/named_functions.hpp"

namespace convt::testing {
namespace {

// A plan with its data.
class Case {
 public:
  explicit Case(const std::string& text, std::uint64_t seed = 1) : data_{seed, "signed", text, {}} {
    convt_plan_options options = CONVT_PLAN_OPTIONS_INIT;
    options.engine = "cpu";
    convt_plan* plan = nullptr;
    if (convt_plan_create_from_text(&plan, text.c_str(), &options) != CONVT_OK)
      throw std::runtime_error(text + ": " + convt_last_error());
    plan_.reset(plan);
    convt_tensor_info info;
    convt_plan_input_info(plan, &info);
    tensors_.push_back(golden_tensor(data_, 0, info));
    convt_plan_kernel_info(plan, &info);
    tensors_.push_back(golden_tensor(data_, 1, info));
    for (std::size_t i = 0; i < convt_plan_operand_count(plan); ++i) {
      convt_plan_operand_info(plan, i, &info);
      tensors_.push_back(golden_tensor(data_, 2 + i, info));
    }
    convt_plan_output_info(plan, &output_);
  }

  const std::string& text() const { return data_.text; }
  std::string explain() const { return convt_plan_explain(plan_.get()); }

  // The output's bytes, in whole words. From several threads at once.
  std::vector<std::uint64_t> run(const convt_thread_pool* pool = nullptr) const {
    std::vector<const void*> operands;
    for (std::size_t i = 2; i < tensors_.size(); ++i) operands.push_back(tensors_[i].data());
    Buffer output(output_.dtype, element_count(output_));
    convt_tensors tensors = CONVT_TENSORS_INIT;
    tensors.input = tensors_[0].data();
    tensors.kernel = tensors_[1].data();
    tensors.output = output.data();
    tensors.operands = operands.data();
    tensors.operand_count = operands.size();
    tensors.thread_pool = pool;
    if (convt_plan_execute(plan_.get(), &tensors) != CONVT_OK) return {};
    return output.storage;
  }

 private:
  struct Destroy {
    void operator()(convt_plan* plan) const { convt_plan_destroy(plan); }
  };
  GoldenCase data_;
  std::unique_ptr<convt_plan, Destroy> plan_;
  std::vector<Buffer> tensors_;
  convt_tensor_info output_;
};

class CpuParallel : public ::testing::Test {
 protected:
  void TearDown() override { convt_set_num_threads(0); }
};

// Tiles, shares of the channels, several images at a time, moments and folds of many tiles, values kept and recomputed.
const std::vector<std::string>& cases() {
  static const std::vector<std::string> all{
      "conv_transpose2d channels=16->96 input=9x9 kernel=3 stride=2",
      "conv_transpose3d batch=2 channels=300->90 input=3x4x5 kernel=2 stride=2",
      "conv_transpose2d channels=24->130 input=6x7 kernel=3 | bias | gelu",
      "conv_transpose2d batch=3 channels=4->5 input=60x70 kernel=4 stride=2 padding=1 | layer_norm(channels) | gelu",
      "conv_transpose2d batch=21 channels=40->40 input=3 kernel=3 padding=1 | softmax",
      "conv_transpose2d channels=8->64 groups=4 input=12x13 kernel=3 stride=2 | group_norm(8)",
      "conv_transpose2d channels=2->40 input=90x80 kernel=3 stride=2 | instance_norm | relu | instance_norm",
      "conv_transpose2d batch=2 channels=1->9 input=100x90 kernel=3 stride=2 | group_norm(1) | add(conv) | silu",
      "conv_transpose3d dtype=f64 channels=2->8 input=15 kernel=3 stride=2 | layer_norm(trailing=2) | max_pool(3)",
      "conv_transpose3d dtype=bf16 channels=2->16 input=16x17x18 kernel=3 stride=2 | sigmoid | global_avg_pool",
      "conv_transpose2d channels=3->20 input=120x110 kernel=2 stride=2 | tanh | max_pool(240x220)",
      "conv_transpose1d channels=3->2 input=3000 kernel=64 stride=16 | instance_norm",
      "conv_transpose3d batch=2 channels=4->12 input=7 kernel=5 stride=2 padding=2 | bias | max_pool(2) | max_pool(3) "
      "| "
      "sum",
      "conv_transpose3d batch=2 channels=256->128 input=10x12x8 kernel=2 stride=2",
      "conv_transpose2d channels=1024->256 input=14 kernel=2 stride=2",
      "conv_transpose2d batch=3 channels=700->40 input=9 kernel=4 stride=2 padding=1",
      "conv_transpose1d channels=1026->1 input=60 kernel=1024 stride=256 padding=512",
      "conv_transpose1d batch=2 channels=5->3 input=40 kernel=2000",
  };
  return all;
}

TEST_F(CpuParallel, SameBitsForAnyNumberOfThreads) {
  for (const std::string& text : cases()) {
    convt_set_num_threads(1);
    const Case alone(text);
    const auto expected = alone.run();
    ASSERT_FALSE(expected.empty()) << convt_last_error();
    for (const std::size_t threads : std::initializer_list<std::size_t>{1, 2, 3, 5, 8}) {
      convt_set_num_threads(threads);
      const Case made_for_so_many(text);
      EXPECT_EQ(made_for_so_many.run(), expected) << threads << " threads: " << text << made_for_so_many.explain();
      EXPECT_EQ(alone.run(), expected) << "planned for 1, called with " << threads << ": " << text;
      convt_set_num_threads(2);
      EXPECT_EQ(made_for_so_many.run(), expected) << "planned for " << threads << ", called with 2: " << text;
    }
  }
}

// A pool that gives each task a thread, but for those it leaves out.
struct Lender {
  std::size_t tasks_called;
  std::atomic<std::size_t> loops{0};

  convt_thread_pool pool(std::size_t threads) {
    convt_thread_pool pool = CONVT_THREAD_POOL_INIT;
    pool.num_threads = threads;
    pool.context = this;
    pool.parallel_for = [](void* context, std::size_t tasks, void (*task)(void*, std::size_t), void* argument) {
      Lender& lender = *static_cast<Lender*>(context);
      ++lender.loops;
      std::vector<std::thread> running;
      for (std::size_t i = 0; i < tasks && i < lender.tasks_called; ++i) running.emplace_back(task, argument, i);
      for (std::thread& thread : running) thread.join();
    };
    return pool;
  }
};

TEST_F(CpuParallel, SameBitsOnThreadsOfTheCaller) {
  convt_set_num_threads(4);
  std::size_t loops = 0;
  for (const std::string& text : cases()) {
    const Case made_for_four(text);
    const auto expected = made_for_four.run();
    ASSERT_FALSE(expected.empty()) << convt_last_error();
    for (const std::size_t called : {8U, 1U, 0U}) {
      Lender lender{called};
      for (const std::size_t threads : {0U, 1U, 2U, 3U, 9U}) {
        const convt_thread_pool pool = lender.pool(threads);
        EXPECT_EQ(made_for_four.run(&pool), expected) << threads << " threads, " << called << " called: " << text;
      }
      loops += lender.loops;
    }
  }
  EXPECT_GE(loops, 3 * cases().size());  // a case of one tile has none
}

// Runs body(t) in `count` threads that begin together.
template <class F>
void at_once(std::size_t count, F body) {
  std::atomic<std::size_t> ready{0};
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < count; ++t)
    threads.emplace_back([&, t] {
      for (++ready; ready < count;) std::this_thread::yield();
      body(t);
    });
  for (std::thread& thread : threads) thread.join();
}

TEST_F(CpuParallel, CallersOfOnePlan) {
  convt_set_num_threads(3);
  for (const std::string& text : cases()) {
    const Case one(text);
    const auto expected = one.run();
    std::atomic<int> wrong{0};
    at_once(4, [&](std::size_t) { wrong += one.run() != expected; });
    EXPECT_EQ(wrong, 0) << text;
  }
}

TEST_F(CpuParallel, CallersOfManyPlans) {
  convt_set_num_threads(3);
  std::vector<Case> all;
  std::vector<std::vector<std::uint64_t>> expected;
  for (const std::string& text : cases()) expected.push_back(all.emplace_back(text).run());
  std::atomic<int> wrong{0};
  at_once(4, [&](std::size_t t) {
    for (std::size_t i = 0; i < all.size(); ++i) {
      const std::size_t which = (i + 3 * t) % all.size();
      wrong += all[which].run() != expected[which];
    }
  });
  EXPECT_EQ(wrong, 0);
}

// Plans are made, and dropped, by callers at once too.
TEST_F(CpuParallel, PlannersAtOnce) {
  convt_set_num_threads(2);
  std::vector<std::vector<std::uint64_t>> expected;
  for (const std::string& text : cases()) expected.push_back(Case(text).run());
  std::atomic<int> wrong{0};
  at_once(3, [&](std::size_t t) {
    for (std::size_t i = 0; i < cases().size(); ++i) {
      const std::size_t which = (i + 4 * t) % cases().size();
      wrong += Case(cases()[which]).run() != expected[which];
    }
  });
  EXPECT_EQ(wrong, 0);
}

// ---- The named problems, whose plans are kept.

struct Named {
  const NamedFunction& function;
  std::vector<std::size_t> sizes;
  std::vector<float> input, kernel, bias;

  explicit Named(const NamedFunction& f, std::size_t width) : function(f), sizes(f.example()) {
    sizes[f.index("width")] = width;
    sizes[f.index("out_channels")] = 24;
    for (auto* tensor : {&input, &kernel, &bias}) {
      tensor->resize(1 << 15);
      for (std::size_t i = 0; i < tensor->size(); ++i)
        (*tensor)[i] = static_cast<float>((i * 2654435761U + tensor->size()) % 1000) / 1000;
    }
  }
  std::vector<float> run() const {
    std::vector<float> output(1 << 18);
    const convt_status status =
        function.run[CONVT_F32](input.data(), kernel.data(), bias.data(), output.data(), sizes, 1.5);
    return status == CONVT_OK ? output : std::vector<float>();
  }
};

TEST_F(CpuParallel, CallersOfNamedProblems) {
  std::vector<Named> all;
  for (const NamedFunction& f : named_functions())
    for (const std::size_t width : std::initializer_list<std::size_t>{5, 6, 11}) all.emplace_back(f, width);
  convt_set_num_threads(1);
  std::vector<std::vector<float>> expected;
  for (const Named& one : all) {
    expected.push_back(one.run());
    ASSERT_FALSE(expected.back().empty()) << one.function.slug << ": " << convt_last_error();
  }
  convt_set_num_threads(3);
  std::atomic<int> wrong{0};
  at_once(4, [&](std::size_t t) {
    for (std::size_t i = 0; i < 2 * all.size(); ++i) {
      const std::size_t which = (i + 5 * t) % all.size();
      wrong += all[which].run() != expected[which];
    }
  });
  EXPECT_EQ(wrong, 0);
}

// ---- fork()

TEST_F(CpuParallel, AChildComputesTheSameBits) {
  convt_set_num_threads(3);
  const Case one(cases()[5]);
  const Named named(named_functions()[2], 9);
  const auto expected = one.run();  // with workers, which the child does not have
  const auto expected_named = named.run();
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    alarm(60);  // in case it hangs
    const bool same = one.run() == expected && named.run() == expected_named && Case(cases()[5]).run() == expected;
    _exit(same ? 0 : 1);
  }
  EXPECT_EQ(one.run(), expected);
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}

}  // namespace
}  // namespace convt::testing
