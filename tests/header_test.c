/* SPDX-License-Identifier: Apache-2.0
 * convt.h is valid C11, its initialisers too, and a C program can call the library. */
#include <stdio.h>
#include <string.h>

#include "convt/convt.h"

_Static_assert(sizeof(convt_status) == sizeof(int), "a status is the size of an int");
_Static_assert(CONVT_OK == 0, "ok is zero");

static void in_turn(void* context, size_t tasks, void (*task)(void* argument, size_t index), void* argument) {
  size_t i;
  (void)context;
  for (i = 0; i < tasks; ++i) task(argument, i);
}

int main(void) {
  convt_problem problem = CONVT_PROBLEM_INIT;
  convt_plan_options options = CONVT_PLAN_OPTIONS_INIT;
  convt_tensors tensors = CONVT_TENSORS_INIT;
  convt_thread_pool pool = CONVT_THREAD_POOL_INIT;
  const float input[2] = {1.0f, 2.0f}, kernel[2] = {3.0f, 4.0f};
  float output[3] = {0.0f, 0.0f, 0.0f};
  convt_plan* plan = NULL;
  problem.dims = 1;
  problem.in_channels = problem.out_channels = 1;
  problem.input[0] = problem.kernel[0] = 2;
  tensors.input = input;
  tensors.kernel = kernel;
  tensors.output = output;
  pool.parallel_for = in_turn;
  tensors.thread_pool = &pool;
  if (convt_plan_create(&plan, &problem, &options) != CONVT_OK || convt_plan_execute(plan, &tensors) != CONVT_OK) {
    fprintf(stderr, "%s\n", convt_last_error());
    return 1;
  }
  convt_plan_destroy(plan);
  return output[0] == 3.0f && output[1] == 10.0f && output[2] == 8.0f ? 0 : 1;
}
