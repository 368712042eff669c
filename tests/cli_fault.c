/* SPDX-License-Identifier: Apache-2.0
 *
 * Preloaded in front of libconvt.so, makes executions wrong in the way that CONVT_CLI_FAULT names, so that a test can
 * see `convt verify` and `convt demo` fail:
 *   value       an element of every output that is not f64 is wrong
 *   everywhere  the first element of every output is wrong, in f64 too: an engine and the reference agree on a mistake
 *   unwritten   the last element of every output that is not f64 is not written
 *   before, after, workspace  the byte before or after the output, or after the workspace, is written
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "convt/convt.h"

typedef convt_status (*execute_function)(const convt_plan*, const convt_tensors*);

static size_t element_size(convt_dtype dtype) { return dtype == CONVT_F64 ? 8 : dtype == CONVT_F32 ? 4 : 2; }

convt_status convt_plan_execute(const convt_plan* plan, const convt_tensors* tensors) {
  execute_function execute;
  *(void**)&execute = dlsym(RTLD_NEXT, "convt_plan_execute");
  const char* fault = getenv("CONVT_CLI_FAULT");
  convt_tensor_info info;
  if (fault == NULL || convt_plan_output_info(plan, &info) != CONVT_OK || info.bytes == 0)
    return execute(plan, tensors);

  unsigned char* output = tensors->output;
  const size_t size = element_size(info.dtype);
  unsigned char last[8];
  memcpy(last, output + info.bytes - size, size);
  const convt_status status = execute(plan, tensors);

  const int is_f64 = info.dtype == CONVT_F64;
  if (strcmp(fault, "everywhere") == 0 || (strcmp(fault, "value") == 0 && !is_f64))
    memset(output, 0x41, size); /* about 12 in f32, 2.3e6 in f64 */
  if (strcmp(fault, "unwritten") == 0 && !is_f64) memcpy(output + info.bytes - size, last, size);
  if (strcmp(fault, "before") == 0) output[-1] = 0x41;
  if (strcmp(fault, "after") == 0) output[info.bytes] = 0x41;
  if (strcmp(fault, "workspace") == 0 && tensors->workspace != NULL)
    ((unsigned char*)tensors->workspace)[tensors->workspace_size] = 0x41;
  return status;
}
