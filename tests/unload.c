/* SPDX-License-Identifier: Apache-2.0
 * Loads the library named by the first argument, uses it with several threads, unloads it, and does it again: no thread
 * of it is left, and none of its memory is mapped. */
#include <dirent.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "convt/convt.h"

static int threads(void) {
  int count = 0;
  DIR* const tasks = opendir("/proc/self/task");
  if (tasks == NULL) return -1;
  for (const struct dirent* one = readdir(tasks); one != NULL; one = readdir(tasks)) count += one->d_name[0] != '.';
  closedir(tasks);
  return count;
}

static int is_mapped(const char* name) {
  char line[4096];
  int found = 0;
  FILE* const maps = fopen("/proc/self/maps", "r");
  if (maps == NULL) return -1;
  while (fgets(line, sizeof line, maps) != NULL) found |= strstr(line, name) != NULL;
  fclose(maps);
  return found;
}

#define FUNCTION(name) __typeof__(name)* const own_##name = (__typeof__(name)*)dlsym(library, #name)

static const char* use(void* library) {
  FUNCTION(convt_set_num_threads);
  FUNCTION(convt_plan_create_from_text);
  FUNCTION(convt_plan_execute);
  FUNCTION(convt_plan_explain);
  FUNCTION(convt_plan_destroy);
  FUNCTION(convt_conv_transpose_2d_square_input_asym_kernel_f32);
  static float input[4 * 64 * 64], kernel[4 * 16 * 9], output[16 * 66 * 66];
  convt_plan* plan = NULL;
  own_convt_set_num_threads(4);
  if (own_convt_plan_create_from_text(&plan, "conv_transpose2d channels=4->16 input=64 kernel=3 | relu", NULL) !=
      CONVT_OK)
    return "no plan";
  convt_tensors tensors = CONVT_TENSORS_INIT;
  tensors.input = input;
  tensors.kernel = kernel;
  tensors.output = output;
  for (int i = 0; i < 20; ++i)
    if (own_convt_plan_execute(plan, &tensors) != CONVT_OK) return "no result";
  if (own_convt_plan_explain(plan) == NULL) return "no explanation";
  own_convt_plan_destroy(plan);
  if (own_convt_conv_transpose_2d_square_input_asym_kernel_f32(input, kernel, output, 1, 4, 16, 64, 64, 3, 3, 1, 1, 0,
                                                               0, 0, 0, 1, 1, 1) != CONVT_OK)
    return "no result of the named function";
  return threads() > 1 ? NULL : "no workers";
}

int main(int count, char** arguments) {
  if (count != 2) return 2;
  for (int i = 0; i < 5; ++i) {
    void* const library = dlopen(arguments[1], RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) return puts(dlerror()), 2;
    const char* const wrong = use(library);
    if (wrong != NULL) return puts(wrong), 1;
    if (dlclose(library) != 0) return puts(dlerror()), 1;
    if (is_mapped("libconvt.so") != 0) return puts("still mapped"), 1;
    if (threads() != 1) return puts("threads are left"), 1;
  }
  return 0;
}
