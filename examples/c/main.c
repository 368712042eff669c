/* SPDX-License-Identifier: Apache-2.0
 *
 * A named problem from C: a transposed convolution, two max pools and a sum over channels, in one call.
 *
 *   cc -std=c11 main.c $(pkg-config --cflags --libs convt) -o example && ./example
 */
#include <convt/convt.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { IN_CHANNELS = 2, OUT_CHANNELS = 3, DEPTH = 7, HEIGHT = 4, WIDTH = 5, KERNEL = 3, STRIDE = 2, PADDING = 1 };

/* Tensors are dense and row-major: C arrays of these types are the tensors of a batch of one. */
static float input[IN_CHANNELS][DEPTH][HEIGHT][WIDTH];
static float kernel[IN_CHANNELS][OUT_CHANNELS][KERNEL][KERNEL][KERNEL];
static float conv_bias[OUT_CHANNELS];

/* Uniform in [-1, 1), the same numbers in every run. */
static void fill(float* values, size_t count) {
  static uint32_t state = 1;
  for (size_t i = 0; i < count; ++i) {
    state = state * 1664525u + 1013904223u;
    values[i] = (float)(state >> 8) / 8388608.0f - 1.0f;
  }
}

/* One output of the convolution alone. Input i and tap k meet at output o = i*STRIDE - PADDING + k. */
static double convolution_at(int channel, const int o[3]) {
  double sum = conv_bias[channel];
  for (int z = 0; z < DEPTH; ++z)
    for (int y = 0; y < HEIGHT; ++y)
      for (int x = 0; x < WIDTH; ++x) {
        const int kd = o[0] + PADDING - z * STRIDE, kh = o[1] + PADDING - y * STRIDE, kw = o[2] + PADDING - x * STRIDE;
        if (kd < 0 || kd >= KERNEL || kh < 0 || kh >= KERNEL || kw < 0 || kw >= KERNEL) continue;
        for (int c = 0; c < IN_CHANNELS; ++c) sum += (double)input[c][z][y][x] * (double)kernel[c][channel][kd][kh][kw];
      }
  return sum;
}

/* The first element of the result: pools of 2 and then of 3 take the maximum of 6x6x6 outputs of the convolution. */
static double expected_first_element(void) {
  double sum = 0;
  for (int channel = 0; channel < OUT_CHANNELS; ++channel) {
    double maximum = convolution_at(channel, (const int[3]){0, 0, 0});
    for (int i = 0; i < 6 * 6 * 6; ++i) {
      const double value = convolution_at(channel, (const int[3]){i / 36, i / 6 % 6, i % 6});
      if (value > maximum) maximum = value;
    }
    sum += maximum;
  }
  return sum;
}

int main(void) {
  /* How large is the output? */
  size_t shape[5];
  convt_status status = convt_conv_transpose3d_max_max_sum_output_shape(1, IN_CHANNELS, OUT_CHANNELS, DEPTH, HEIGHT,
                                                                        WIDTH, KERNEL, KERNEL, KERNEL, STRIDE, STRIDE,
                                                                        STRIDE, PADDING, PADDING, PADDING, shape);
  if (status != CONVT_OK) {
    fprintf(stderr, "%s: %s\n", convt_status_name(status), convt_last_error());
    return 1;
  }
  const size_t count = shape[0] * shape[1] * shape[2] * shape[3] * shape[4];
  float* output = malloc(count * sizeof *output);
  if (output == NULL) return 1;

  fill(&input[0][0][0][0], sizeof input / sizeof(float));
  fill(&kernel[0][0][0][0][0], sizeof kernel / sizeof(float));
  fill(conv_bias, OUT_CHANNELS);

  /* Run. Every function that can fail returns a status. */
  status = convt_conv_transpose3d_max_max_sum_f32(&input[0][0][0][0], &kernel[0][0][0][0][0], conv_bias, output, 1,
                                                  IN_CHANNELS, OUT_CHANNELS, DEPTH, HEIGHT, WIDTH, KERNEL, KERNEL,
                                                  KERNEL, STRIDE, STRIDE, STRIDE, PADDING, PADDING, PADDING);
  if (status != CONVT_OK) {
    fprintf(stderr, "%s: %s\n", convt_status_name(status), convt_last_error());
    free(output);
    return 1;
  }
  double checksum = 0;
  for (size_t i = 0; i < count; ++i) checksum += (double)output[i];
  printf("output shape: %zu x %zu x %zu x %zu x %zu, checksum %.6f\n", shape[0], shape[1], shape[2], shape[3], shape[4],
         checksum);

  const double difference = (double)output[0] - expected_first_element();
  const int right = difference < 1e-5 && difference > -1e-5;
  printf("first element: %.6f, by hand %.6f\n", (double)output[0], expected_first_element());
  free(output);

  /* A wrong argument writes nothing; the message names the argument, the rule and the values. */
  status = convt_conv_transpose3d_max_max_sum_output_shape(1, IN_CHANNELS, OUT_CHANNELS, DEPTH, HEIGHT, WIDTH, KERNEL,
                                                           KERNEL, KERNEL, STRIDE, STRIDE, /* stride_w = */ 0, PADDING,
                                                           PADDING, PADDING, shape);
  printf("stride_w = 0 gives %s: %s\n", convt_status_name(status), convt_last_error());
  return right && status == CONVT_INVALID_ARGUMENT ? 0 : 1;
}
