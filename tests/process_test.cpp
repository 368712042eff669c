// SPDX-License-Identifier: Apache-2.0
// The library in a process of its own: forked at any moment, loaded and unloaded, with blocked signals, with little
// memory. Each test runs in children, where nothing of the library has run before.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "convt/convt.h"

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define CONVT_SANITIZED 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define CONVT_SANITIZED 1
#endif

namespace {

constexpr int fine = 0, wrong = 1, slow_seconds = 20;

// What a child's body returns, or 128 and the signal that ended it.
int in_child(const std::function<int()>& body) {
  const pid_t child = fork();
  if (child == 0) {
    alarm(slow_seconds);  // one that hangs is ended
    _exit(body());
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

const char* const problem =
    "conv_transpose2d batch=2 channels=8->16 input=24 kernel=3 stride=2 | bias | instance_norm | gelu";

// A plan, executed; whether all went well.
bool run(const char* text) {
  convt_plan* plan = nullptr;
  if (convt_plan_create_from_text(&plan, text, nullptr) != CONVT_OK) return false;
  convt_tensor_info info;
  const auto bytes = [&](convt_status status) { return status == CONVT_OK ? info.bytes : 0; };
  const std::vector<char> input(bytes(convt_plan_input_info(plan, &info))),
      kernel(bytes(convt_plan_kernel_info(plan, &info)));
  std::vector<char> output(bytes(convt_plan_output_info(plan, &info)), 1);
  std::vector<std::vector<char>> operands;
  std::vector<const void*> pointers;
  for (std::size_t i = 0; i < convt_plan_operand_count(plan); ++i)
    operands.emplace_back(bytes(convt_plan_operand_info(plan, i, &info)));
  for (const auto& operand : operands) pointers.push_back(operand.data());
  convt_tensors tensors = CONVT_TENSORS_INIT;
  tensors.input = input.data();
  tensors.kernel = kernel.data();
  tensors.output = output.data();
  tensors.operands = pointers.data();
  tensors.operand_count = pointers.size();
  const bool ran = convt_plan_execute(plan, &tensors) == CONVT_OK && convt_plan_explain(plan) != nullptr;
  convt_plan_destroy(plan);
  return ran && output == std::vector<char>(output.size());
}

bool describe_all() {
  convt_op_description op;
  convt_named_problem_description named;
  return convt_op_describe(0, &op) == CONVT_OK && convt_named_problem_describe(0, &named) == CONVT_OK;
}

// A thread makes its first calls while the process forks, a little later each time; the child makes the same ones.
int fork_at(std::chrono::nanoseconds when) {
  convt_set_num_threads(2);
  std::atomic<bool> begun{false};
  std::thread first([&] {
    begun.store(true);
    describe_all();
    run(problem);
  });
  while (!begun.load()) {
  }
  const auto until = std::chrono::steady_clock::now() + when;
  while (std::chrono::steady_clock::now() < until) {
  }
  const int result = in_child([] { return describe_all() && run(problem) ? fine : wrong; });
  first.join();
  return result;
}

TEST(Process, ForksWhileAnotherThreadMakesItsFirstCalls) {
#ifdef CONVT_SANITIZED
  GTEST_SKIP() << "the sanitizer's runtime has locks of its own that fork() can cut";
#endif
  for (int i = 0; i < 60; ++i)
    ASSERT_EQ(in_child([&] { return fork_at(std::chrono::nanoseconds(i * i * 500)); }), fine) << "fork " << i;
}

#if defined(__linux__)
// The ids of the library's own threads.
std::vector<std::string> workers() {
  std::vector<std::string> found;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::string name;
    std::getline(std::ifstream(task.path() / "comm") >> std::ws, name);
    if (name == "convt") found.push_back(task.path().filename());
  }
  return found;
}

TEST(Process, IsUnloadedAfterUse) {
#ifdef CONVT_SANITIZED
  GTEST_SKIP() << "the sanitizer's runtime keeps libraries loaded";
#endif
  // By a program that is not linked to it.
  ASSERT_EQ(std::system(CONVT_UNLOAD_PROGRAM " " CONVT_LIBRARY_FILE), 0);
}

std::string blocked_signals(const std::string& task) {
  std::ifstream status("/proc/self/task/" + task + "/status");
  for (std::string line; std::getline(status, line);)
    if (line.rfind("SigBlk:", 0) == 0) return line;
  return "";
}

// Workers have the mask of the thread whose call started them.
TEST(Process, WorkersBlockWhatTheirStarterBlocks) {
  for (const bool blocks : {false, true})
    EXPECT_EQ(in_child([&] {
                sigset_t mask;
                sigemptyset(&mask);
                if (blocks) {
                  sigaddset(&mask, SIGUSR1);
                  sigaddset(&mask, SIGTERM);
                }
                pthread_sigmask(SIG_SETMASK, &mask, nullptr);
                convt_set_num_threads(4);
                const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(10);
                while (workers().size() < 3 && std::chrono::steady_clock::now() < until)
                  if (!run(problem)) return wrong;
                const std::string own = blocked_signals(std::to_string(getpid()));
                const auto all = workers();
                for (const std::string& worker : all)
                  if (own.empty() || blocked_signals(worker) != own) return wrong;
                sigset_t after;
                pthread_sigmask(SIG_SETMASK, nullptr, &after);
                return all.empty() || sigismember(&after, SIGUSR1) != (blocks ? 1 : 0) ? wrong : fine;
              }),
              fine);
}
#endif

TEST(Process, SaysWhenMemoryIsShort) {
#ifdef CONVT_SANITIZED
  GTEST_SKIP() << "the sanitizer's runtime needs more address space than a limit leaves";
#endif
  EXPECT_EQ(in_child([] {
              convt_set_num_threads(2);
              if (!run(problem)) return 2;
              const char* const large =
                  "conv_transpose2d channels=64->64 input=512 kernel=3 | instance_norm | max_pool(2)";
              convt_plan* plan = nullptr;
              if (convt_plan_create_from_text(&plan, large, nullptr) != CONVT_OK) return 3;
              std::size_t workspace = 0;
              convt_plan_workspace_size(plan, &workspace);
              convt_tensor_info input, kernel, output;
              convt_plan_input_info(plan, &input);
              convt_plan_kernel_info(plan, &kernel);
              convt_plan_output_info(plan, &output);
              const std::vector<char> from(input.bytes), weights(kernel.bytes);
              std::vector<char> to(output.bytes, 7);
              const std::vector<char> before = to;
              convt_tensors tensors = CONVT_TENSORS_INIT;
              tensors.input = from.data();
              tensors.kernel = weights.data();
              tensors.output = to.data();
              // What is mapped now, and half of the workspace more.
              std::size_t pages = 0;
              std::ifstream("/proc/self/statm") >> pages;
              const rlim_t mapped = pages * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
              rlimit limit{};
              getrlimit(RLIMIT_AS, &limit);
              limit.rlim_cur = mapped + workspace / 2;
              if (workspace < (8U << 20) || setrlimit(RLIMIT_AS, &limit) != 0) return 4;
              if (convt_plan_execute(plan, &tensors) != CONVT_OUT_OF_MEMORY) return 5;
              if (to != before) return 6;
              if (!run(problem)) return 7;  // what is small goes on
              limit.rlim_cur = limit.rlim_max;
              setrlimit(RLIMIT_AS, &limit);
              return convt_plan_execute(plan, &tensors) == CONVT_OK ? fine : 8;
            }),
            fine);
}

TEST(Process, PlansForThreadsThatItCanHave) {
  EXPECT_EQ(in_child([] {
              convt_plan* plan = nullptr;
              std::size_t few = 0, many = 0;
              convt_set_num_threads(16);
              if (convt_plan_create_from_text(&plan, problem, nullptr) != CONVT_OK) return 2;
              convt_plan_workspace_size(plan, &few);
              convt_plan_destroy(plan);
              convt_set_num_threads(65536);
              if (convt_plan_create_from_text(&plan, problem, nullptr) != CONVT_OK) return 3;
              convt_plan_workspace_size(plan, &many);
              convt_plan_destroy(plan);
              const auto online = static_cast<std::size_t>(sysconf(_SC_NPROCESSORS_ONLN));
              return many <= few * (online / 8 + 3) && run(problem) ? fine : wrong;
            }),
            fine);
}

}  // namespace
