/* SPDX-License-Identifier: Apache-2.0
 *
 * A plan from C: any transposed convolution with any chain behind it, written as text. The plan tells which tensors it
 * needs; the caller owns all memory, scratch space included.
 *
 *   cc -std=c11 main.c $(pkg-config --cflags --libs convt) -o example && ./example
 */
#include <convt/convt.h>
#include <stdio.h>
#include <stdlib.h>

static const char* const text =
    "conv_transpose2d dtype=f32 channels=3->2 input=5x6 kernel=4 stride=2 padding=1 | bias | relu | mul(channel)";

static void must(convt_status status) {
  if (status == CONVT_OK) return;
  fprintf(stderr, "%s: %s\n", convt_status_name(status), convt_last_error());
  exit(1);
}

/* A tensor of the size that `info` asks for, every element set to `value`. */
static float* filled(const convt_tensor_info* info, float value) {
  float* values = malloc(info->bytes);
  if (values == NULL) exit(1);
  for (size_t i = 0; i < info->bytes / sizeof *values; ++i) values[i] = value;
  return values;
}

int main(void) {
  convt_plan* plan;
  must(convt_plan_create_from_text(&plan, text, NULL));
  puts(convt_plan_explain(plan));

  /* Ones everywhere. The operands come in the order of the chain: the bias, then the factor of each channel. */
  convt_tensor_info info;
  must(convt_plan_input_info(plan, &info));
  float* input = filled(&info, 1.0f);
  must(convt_plan_kernel_info(plan, &info));
  float* kernel = filled(&info, 1.0f);
  for (size_t i = 0; i < convt_plan_operand_count(plan); ++i) {
    must(convt_plan_operand_info(plan, i, &info));
    printf("operand %zu: %s, %zu bytes\n", i, info.name, info.bytes);
  }
  const float bias[2] = {-10.0f, -20.0f};
  const float factor[2] = {0.5f, 3.0f};
  const void* const operands[2] = {bias, factor};
  must(convt_plan_output_info(plan, &info));
  float* output = filled(&info, -1.0f);
  const size_t height = info.shape[2], width = info.shape[3];

  /* Scratch memory of our own, which one thread may use again and again. NULL would let the library allocate it. */
  size_t workspace_size;
  must(convt_plan_workspace_size(plan, &workspace_size));
  workspace_size = (workspace_size + 63) / 64 * 64;
  void* workspace = workspace_size == 0 ? NULL : aligned_alloc(64, workspace_size);
  if (workspace_size != 0 && workspace == NULL) return 1;

  convt_tensors tensors = CONVT_TENSORS_INIT;
  tensors.input = input;
  tensors.kernel = kernel;
  tensors.output = output;
  tensors.operands = operands;
  tensors.operand_count = 2;
  tensors.workspace = workspace;
  tensors.workspace_size = workspace_size;
  must(convt_plan_execute(plan, &tensors));

  /* By hand: away from the border, kernel 4 over stride 2 puts 2 taps per axis on each output. So the convolution gives
   * 3 channels * 2 * 2 = 12; channel 0 is max(12 - 10, 0) * 0.5 = 1, channel 1 is max(12 - 20, 0) * 3 = 0. The corner
   * has 1 tap per axis: max(3 - 10, 0) * 0.5 = 0. */
  const float inside = output[height / 2 * width + width / 2], corner = output[0];
  const float inside_1 = output[(height + height / 2) * width + width / 2];
  printf("output %zu x %zu: inside %g and %g, in the corner %g\n", height, width, (double)inside, (double)inside_1,
         (double)corner);
  const int right = height == 10 && width == 12 && inside == 1.0f && inside_1 == 0.0f && corner == 0.0f;

  /* Malformed text is refused with its position. */
  convt_plan* none;
  const convt_status status =
      convt_plan_create_from_text(&none, "conv_transpose2d channels=3->2 input=5x6 kernel=4 | rellu", NULL);
  printf("%s: %s\n", convt_status_name(status), convt_last_error());

  convt_plan_destroy(plan);
  free(workspace);
  free(output);
  free(kernel);
  free(input);
  return right && status == CONVT_INVALID_ARGUMENT && none == NULL ? 0 : 1;
}
