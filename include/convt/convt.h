/* SPDX-License-Identifier: Apache-2.0
 *
 * convt: a transposed convolution and everything that follows it, in one call.
 *
 * Three parts, from simple to general:
 *   1. settings, status and error text;
 *   2. the five named problems, one function per element type;
 *   3. plans: any transposed convolution with any chain of operations behind it.
 *
 * Rules that hold everywhere:
 *   - A function that can fail returns a convt_status, or NULL where it returns a text. On failure nothing was written
 *     through the caller's pointers (but convt_plan_create*() sets *plan to NULL), and convt_last_error() says which
 *     argument broke which rule.
 *   - Tensors are dense, but for input and output that are a range of a wider tensor's channels. Channels-first means
 * row-major N, C, [D, [H,]] W; channels-last means N, [D, [H,]] W, C. The convolution's kernel is always row-major:
 * in_channels, out_channels/groups, [kernel_d, [kernel_h,]] kernel_w.
 *   - A tensor is aligned to its element size. The output overlaps no other tensor; inputs may overlap each other. All
 *     tensors of a call are in one memory. A pointer may be NULL only if its tensor is empty (batch 0).
 *   - Host pointers, pinned ones included, run on the CPU, and such calls leave CUDA alone. In a CUDA build, device and
 *     managed pointers run on the device they belong to: work is enqueued on the caller's stream and the call returns.
 *     A build without CUDA cannot tell them apart: never pass it one.
 *   - Calls on a device wait for nothing. The stream may be being captured into a graph: memory that such a call needs
 *     is then the graph's own, and the graph stays valid as long as the caller's tensors (and plan, if its kernel is
 *     packed) do.
 *   - All functions may be called from several threads at once, except where a plan is being changed or destroyed.
 */
#ifndef CONVT_CONVT_H
#define CONVT_CONVT_H

#include <stddef.h>
#include <stdint.h>

#define CONVT_VERSION_MAJOR 0
#define CONVT_VERSION_MINOR 2
#define CONVT_VERSION_PATCH 0

#if defined(__GNUC__) || defined(__clang__)
#define CONVT_API __attribute__((visibility("default")))
#else
#define CONVT_API
#endif

/* Enums are ints, and any int may arrive where one is expected: C++ is told so. */
#ifdef __cplusplus
#define CONVT_INT : int
#else
#define CONVT_INT
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ---------------------------------------------------------------- 1. settings, status and error text -------------- */

typedef enum convt_status CONVT_INT {
  CONVT_OK = 0,
  CONVT_INVALID_ARGUMENT = 1, /* an argument breaks a rule; the message names argument, rule and values */
  CONVT_UNSUPPORTED = 2,      /* legal, but nothing in this build can run it */
  CONVT_OUT_OF_MEMORY = 3,    /* host or device memory could not be had; nothing is left half-allocated */
  CONVT_DEVICE_ERROR = 4,     /* the device's driver reported an error; the message names it */
  CONVT_INTERNAL_ERROR = 5    /* a defect in convt */
} convt_status;

/* "ok", "invalid_argument", ...; "unknown" for a value that is no status. Never NULL. */
CONVT_API const char* convt_status_name(convt_status status);

/* Text of the last failure in the calling thread, "" before the first one. Valid until the thread's next failure. */
CONVT_API const char* convt_last_error(void);

/* "MAJOR.MINOR.PATCH" of the library that is loaded, which may be newer than this header. */
CONVT_API const char* convt_version(void);

/* Threads the CPU engines may use in one call, the calling one included; for the whole process, at most 65536. 0, the
 * initial value: every CPU the calling thread may run on (its affinity), but no more than the CPU time that the
 * process' control groups (cgroups) grant, rounded up. Results do not depend on it. The reference engine uses one.
 *
 * All calls share one pool of worker threads, but for those that bring their own (convt_thread_pool). They are started
 * by the first call that has use for them, with that thread's affinity and signal mask, sleep between calls, and end
 * with the process or when the library is unloaded. A call always works in its own thread too, and never waits for a
 * worker to become free. After fork() the child may call the library at once, whatever threads of the parent were
 * doing, and starts workers of its own. */
CONVT_API convt_status convt_set_num_threads(size_t num_threads);
/* The number in effect, at least 1. */
CONVT_API size_t convt_get_num_threads(void);

/* How float32 products may be computed. TF32 is a permission: engines without TF32 units compute in float32. */
typedef enum convt_float32_precision CONVT_INT {
  CONVT_FLOAT32_IEEE = 0,
  CONVT_FLOAT32_TF32 = 1
} convt_float32_precision;

/* For the named problems called from this thread. Plans carry a precision of their own. Initially IEEE. */
CONVT_API convt_status convt_set_float32_precision(convt_float32_precision precision);
CONVT_API convt_float32_precision convt_get_float32_precision(void);

/* The cudaStream_t on which the named problems called from this thread run device pointers. Initially NULL, the default
 * stream. Ignored for host pointers. */
CONVT_API convt_status convt_set_stream(void* stream);
CONVT_API void* convt_get_stream(void);

typedef enum convt_dtype CONVT_INT { CONVT_F32 = 0, CONVT_F64 = 1, CONVT_F16 = 2, CONVT_BF16 = 3 } convt_dtype;

/* 16-bit storage types: IEEE binary16, and bfloat16 (the upper half of a float). Two bytes, no padding: memory that
 * holds _Float16, __half, at::Half or their bfloat16 siblings can be passed as it is, by casting the pointer. */
typedef struct convt_f16 {
  uint16_t bits;
} convt_f16;
typedef struct convt_bf16 {
  uint16_t bits;
} convt_bf16;

/* Rounds to nearest, ties to even. */
CONVT_API convt_f16 convt_f16_from_double(double value);
CONVT_API convt_bf16 convt_bf16_from_double(double value);
CONVT_API double convt_f16_to_double(convt_f16 value);
CONVT_API double convt_bf16_to_double(convt_bf16 value);

/* ---------------------------------------------------------------- 2. the five named problems ---------------------- */
/*
 * All tensors are channels-first. Output size per axis of the convolution:
 *   out = (in - 1)*stride - 2*padding + dilation*(kernel - 1) + output_padding + 1
 * Batch 0 is legal and gives an empty output. Each problem has a function that answers the output's shape (N, C, [D,]
 * H, W) without running. Plans are kept between calls; weights are packed in every call: where they are constant, keep
 * a plan (part 3).
 */

/* ---- conv-transpose-2d-square-input-asym-kernel: y */

CONVT_API convt_status convt_conv_transpose_2d_square_input_asym_kernel_f32(
    const float* input, const float* kernel, float* output, size_t batch_size, size_t in_channels, size_t out_channels,
    size_t height, size_t width, size_t kernel_h, size_t kernel_w, size_t stride_h, size_t stride_w, size_t padding_h,
    size_t padding_w, size_t output_padding_h, size_t output_padding_w, size_t dilation_h, size_t dilation_w,
    size_t groups);
CONVT_API convt_status convt_conv_transpose_2d_square_input_asym_kernel_f64(
    const double* input, const double* kernel, double* output, size_t batch_size, size_t in_channels,
    size_t out_channels, size_t height, size_t width, size_t kernel_h, size_t kernel_w, size_t stride_h,
    size_t stride_w, size_t padding_h, size_t padding_w, size_t output_padding_h, size_t output_padding_w,
    size_t dilation_h, size_t dilation_w, size_t groups);
CONVT_API convt_status convt_conv_transpose_2d_square_input_asym_kernel_f16(
    const convt_f16* input, const convt_f16* kernel, convt_f16* output, size_t batch_size, size_t in_channels,
    size_t out_channels, size_t height, size_t width, size_t kernel_h, size_t kernel_w, size_t stride_h,
    size_t stride_w, size_t padding_h, size_t padding_w, size_t output_padding_h, size_t output_padding_w,
    size_t dilation_h, size_t dilation_w, size_t groups);
CONVT_API convt_status convt_conv_transpose_2d_square_input_asym_kernel_bf16(
    const convt_bf16* input, const convt_bf16* kernel, convt_bf16* output, size_t batch_size, size_t in_channels,
    size_t out_channels, size_t height, size_t width, size_t kernel_h, size_t kernel_w, size_t stride_h,
    size_t stride_w, size_t padding_h, size_t padding_w, size_t output_padding_h, size_t output_padding_w,
    size_t dilation_h, size_t dilation_w, size_t groups);
CONVT_API convt_status convt_conv_transpose_2d_square_input_asym_kernel_output_shape(
    size_t batch_size, size_t in_channels, size_t out_channels, size_t height, size_t width, size_t kernel_h,
    size_t kernel_w, size_t stride_h, size_t stride_w, size_t padding_h, size_t padding_w, size_t output_padding_h,
    size_t output_padding_w, size_t dilation_h, size_t dilation_w, size_t groups, size_t output_shape[4]);

/* ---- conv-transpose-3d-asym-input-sq-kernel: y */

CONVT_API convt_status convt_conv_transpose_3d_asym_input_sq_kernel_f32(
    const float* input, const float* kernel, float* output, size_t batch_size, size_t in_channels, size_t out_channels,
    size_t depth, size_t height, size_t width, size_t kernel_d, size_t kernel_h, size_t kernel_w, size_t stride_d,
    size_t stride_h, size_t stride_w, size_t padding_d, size_t padding_h, size_t padding_w, size_t output_padding_d,
    size_t output_padding_h, size_t output_padding_w, size_t dilation_d, size_t dilation_h, size_t dilation_w,
    size_t groups);
CONVT_API convt_status convt_conv_transpose_3d_asym_input_sq_kernel_f64(
    const double* input, const double* kernel, double* output, size_t batch_size, size_t in_channels,
    size_t out_channels, size_t depth, size_t height, size_t width, size_t kernel_d, size_t kernel_h, size_t kernel_w,
    size_t stride_d, size_t stride_h, size_t stride_w, size_t padding_d, size_t padding_h, size_t padding_w,
    size_t output_padding_d, size_t output_padding_h, size_t output_padding_w, size_t dilation_d, size_t dilation_h,
    size_t dilation_w, size_t groups);
CONVT_API convt_status convt_conv_transpose_3d_asym_input_sq_kernel_f16(
    const convt_f16* input, const convt_f16* kernel, convt_f16* output, size_t batch_size, size_t in_channels,
    size_t out_channels, size_t depth, size_t height, size_t width, size_t kernel_d, size_t kernel_h, size_t kernel_w,
    size_t stride_d, size_t stride_h, size_t stride_w, size_t padding_d, size_t padding_h, size_t padding_w,
    size_t output_padding_d, size_t output_padding_h, size_t output_padding_w, size_t dilation_d, size_t dilation_h,
    size_t dilation_w, size_t groups);
CONVT_API convt_status convt_conv_transpose_3d_asym_input_sq_kernel_bf16(
    const convt_bf16* input, const convt_bf16* kernel, convt_bf16* output, size_t batch_size, size_t in_channels,
    size_t out_channels, size_t depth, size_t height, size_t width, size_t kernel_d, size_t kernel_h, size_t kernel_w,
    size_t stride_d, size_t stride_h, size_t stride_w, size_t padding_d, size_t padding_h, size_t padding_w,
    size_t output_padding_d, size_t output_padding_h, size_t output_padding_w, size_t dilation_d, size_t dilation_h,
    size_t dilation_w, size_t groups);
CONVT_API convt_status convt_conv_transpose_3d_asym_input_sq_kernel_output_shape(
    size_t batch_size, size_t in_channels, size_t out_channels, size_t depth, size_t height, size_t width,
    size_t kernel_d, size_t kernel_h, size_t kernel_w, size_t stride_d, size_t stride_h, size_t stride_w,
    size_t padding_d, size_t padding_h, size_t padding_w, size_t output_padding_d, size_t output_padding_h,
    size_t output_padding_w, size_t dilation_d, size_t dilation_h, size_t dilation_w, size_t groups,
    size_t output_shape[5]);

/* ---- conv-transpose3d-max-max-sum: max_pool3d(max_pool3d(y + conv_bias, 2), 3).sum(1, keepdim=True);
 * conv_bias has out_channels elements */

CONVT_API convt_status convt_conv_transpose3d_max_max_sum_f32(const float* input, const float* kernel,
                                                              const float* conv_bias, float* output, size_t batch_size,
                                                              size_t in_channels, size_t out_channels, size_t depth,
                                                              size_t height, size_t width, size_t kernel_d,
                                                              size_t kernel_h, size_t kernel_w, size_t stride_d,
                                                              size_t stride_h, size_t stride_w, size_t padding_d,
                                                              size_t padding_h, size_t padding_w);
CONVT_API convt_status convt_conv_transpose3d_max_max_sum_f64(
    const double* input, const double* kernel, const double* conv_bias, double* output, size_t batch_size,
    size_t in_channels, size_t out_channels, size_t depth, size_t height, size_t width, size_t kernel_d,
    size_t kernel_h, size_t kernel_w, size_t stride_d, size_t stride_h, size_t stride_w, size_t padding_d,
    size_t padding_h, size_t padding_w);
CONVT_API convt_status convt_conv_transpose3d_max_max_sum_f16(
    const convt_f16* input, const convt_f16* kernel, const convt_f16* conv_bias, convt_f16* output, size_t batch_size,
    size_t in_channels, size_t out_channels, size_t depth, size_t height, size_t width, size_t kernel_d,
    size_t kernel_h, size_t kernel_w, size_t stride_d, size_t stride_h, size_t stride_w, size_t padding_d,
    size_t padding_h, size_t padding_w);
CONVT_API convt_status convt_conv_transpose3d_max_max_sum_bf16(
    const convt_bf16* input, const convt_bf16* kernel, const convt_bf16* conv_bias, convt_bf16* output,
    size_t batch_size, size_t in_channels, size_t out_channels, size_t depth, size_t height, size_t width,
    size_t kernel_d, size_t kernel_h, size_t kernel_w, size_t stride_d, size_t stride_h, size_t stride_w,
    size_t padding_d, size_t padding_h, size_t padding_w);
CONVT_API convt_status convt_conv_transpose3d_max_max_sum_output_shape(
    size_t batch_size, size_t in_channels, size_t out_channels, size_t depth, size_t height, size_t width,
    size_t kernel_d, size_t kernel_h, size_t kernel_w, size_t stride_d, size_t stride_h, size_t stride_w,
    size_t padding_d, size_t padding_h, size_t padding_w, size_t output_shape[5]);

/* ---- conv-transpose3d-layernorm-gelu-scaling: gelu(LN(y)) * scaling_factor; LN over channels, eps 1e-5, no affine */

CONVT_API convt_status convt_conv_transpose3d_layernorm_gelu_scaling_f32(
    const float* input, const float* kernel, float* output, size_t batch_size, size_t in_channels, size_t out_channels,
    size_t depth, size_t height, size_t width, size_t kernel_d, size_t kernel_h, size_t kernel_w, size_t stride_d,
    size_t stride_h, size_t stride_w, size_t padding_d, size_t padding_h, size_t padding_w, size_t output_padding_d,
    size_t output_padding_h, size_t output_padding_w, double scaling_factor);
CONVT_API convt_status convt_conv_transpose3d_layernorm_gelu_scaling_f64(
    const double* input, const double* kernel, double* output, size_t batch_size, size_t in_channels,
    size_t out_channels, size_t depth, size_t height, size_t width, size_t kernel_d, size_t kernel_h, size_t kernel_w,
    size_t stride_d, size_t stride_h, size_t stride_w, size_t padding_d, size_t padding_h, size_t padding_w,
    size_t output_padding_d, size_t output_padding_h, size_t output_padding_w, double scaling_factor);
CONVT_API convt_status convt_conv_transpose3d_layernorm_gelu_scaling_f16(
    const convt_f16* input, const convt_f16* kernel, convt_f16* output, size_t batch_size, size_t in_channels,
    size_t out_channels, size_t depth, size_t height, size_t width, size_t kernel_d, size_t kernel_h, size_t kernel_w,
    size_t stride_d, size_t stride_h, size_t stride_w, size_t padding_d, size_t padding_h, size_t padding_w,
    size_t output_padding_d, size_t output_padding_h, size_t output_padding_w, double scaling_factor);
CONVT_API convt_status convt_conv_transpose3d_layernorm_gelu_scaling_bf16(
    const convt_bf16* input, const convt_bf16* kernel, convt_bf16* output, size_t batch_size, size_t in_channels,
    size_t out_channels, size_t depth, size_t height, size_t width, size_t kernel_d, size_t kernel_h, size_t kernel_w,
    size_t stride_d, size_t stride_h, size_t stride_w, size_t padding_d, size_t padding_h, size_t padding_w,
    size_t output_padding_d, size_t output_padding_h, size_t output_padding_w, double scaling_factor);
CONVT_API convt_status convt_conv_transpose3d_layernorm_gelu_scaling_output_shape(
    size_t batch_size, size_t in_channels, size_t out_channels, size_t depth, size_t height, size_t width,
    size_t kernel_d, size_t kernel_h, size_t kernel_w, size_t stride_d, size_t stride_h, size_t stride_w,
    size_t padding_d, size_t padding_h, size_t padding_w, size_t output_padding_d, size_t output_padding_h,
    size_t output_padding_w, size_t output_shape[5]);

/* ---- conv-transpose3d-sum-layernorm-avgpool-gelu: gelu(avg_pool3d(LN(y + sum_weight), 2)); LN as above */

CONVT_API convt_status convt_conv_transpose3d_sum_layernorm_avgpool_gelu_f32(
    const float* input, const float* kernel, float* output, size_t batch_size, size_t in_channels, size_t out_channels,
    size_t depth, size_t height, size_t width, size_t kernel_d, size_t kernel_h, size_t kernel_w, size_t stride_d,
    size_t stride_h, size_t stride_w, size_t padding_d, size_t padding_h, size_t padding_w, size_t output_padding_d,
    size_t output_padding_h, size_t output_padding_w, double sum_weight);
CONVT_API convt_status convt_conv_transpose3d_sum_layernorm_avgpool_gelu_f64(
    const double* input, const double* kernel, double* output, size_t batch_size, size_t in_channels,
    size_t out_channels, size_t depth, size_t height, size_t width, size_t kernel_d, size_t kernel_h, size_t kernel_w,
    size_t stride_d, size_t stride_h, size_t stride_w, size_t padding_d, size_t padding_h, size_t padding_w,
    size_t output_padding_d, size_t output_padding_h, size_t output_padding_w, double sum_weight);
CONVT_API convt_status convt_conv_transpose3d_sum_layernorm_avgpool_gelu_f16(
    const convt_f16* input, const convt_f16* kernel, convt_f16* output, size_t batch_size, size_t in_channels,
    size_t out_channels, size_t depth, size_t height, size_t width, size_t kernel_d, size_t kernel_h, size_t kernel_w,
    size_t stride_d, size_t stride_h, size_t stride_w, size_t padding_d, size_t padding_h, size_t padding_w,
    size_t output_padding_d, size_t output_padding_h, size_t output_padding_w, double sum_weight);
CONVT_API convt_status convt_conv_transpose3d_sum_layernorm_avgpool_gelu_bf16(
    const convt_bf16* input, const convt_bf16* kernel, convt_bf16* output, size_t batch_size, size_t in_channels,
    size_t out_channels, size_t depth, size_t height, size_t width, size_t kernel_d, size_t kernel_h, size_t kernel_w,
    size_t stride_d, size_t stride_h, size_t stride_w, size_t padding_d, size_t padding_h, size_t padding_w,
    size_t output_padding_d, size_t output_padding_h, size_t output_padding_w, double sum_weight);
CONVT_API convt_status convt_conv_transpose3d_sum_layernorm_avgpool_gelu_output_shape(
    size_t batch_size, size_t in_channels, size_t out_channels, size_t depth, size_t height, size_t width,
    size_t kernel_d, size_t kernel_h, size_t kernel_w, size_t stride_d, size_t stride_h, size_t stride_w,
    size_t padding_d, size_t padding_h, size_t padding_w, size_t output_padding_d, size_t output_padding_h,
    size_t output_padding_w, size_t output_shape[5]);

/* ---------------------------------------------------------------- 3. plans ---------------------------------------- */
/*
 * A plan is a transposed convolution followed by a chain of operations, bound to a device and to an engine:
 *
 *   convt_plan *plan;
 *   convt_plan_create_from_text(&plan, "conv_transpose3d dtype=f32 batch=2 channels=32->64 input=16x32x32 kernel=4 "
 *                                      "stride=2 padding=1 | bias | layer_norm(channels) | gelu", NULL);
 *
 * docs/text.md gives the grammar; convt_op_describe() lists the operations. A plan is immutable but for
 * convt_plan_pack_kernel(): any number of threads may execute it at once.
 */

typedef enum convt_layout CONVT_INT { CONVT_CHANNELS_FIRST = 0, CONVT_CHANNELS_LAST = 1 } convt_layout;

typedef enum convt_device CONVT_INT { CONVT_DEVICE_CPU = 0, CONVT_DEVICE_CUDA = 1 } convt_device;

/* What to compute. Start from CONVT_PROBLEM_INIT and set at least dims, in_channels, out_channels, input and kernel.
 * Arrays hold one entry per spatial axis, in the order D, H, W (3D), H, W (2D) or W (1D), and entries from `dims` on
 * are ignored. */
typedef struct convt_problem {
  size_t struct_size; /* sizeof(convt_problem): how later versions tell which fields the caller knows */
  size_t dims;        /* 1, 2 or 3 */
  convt_dtype dtype;  /* of input, kernel and output, and of each chain operand that does not say dtype=f32 */
  convt_layout input_layout;
  convt_layout output_layout; /* also of whole-tensor operands, as add(tensor) takes; all others are row-major */
  convt_float32_precision precision;
  size_t batch_size;
  size_t in_channels;
  size_t out_channels;
  size_t groups;
  size_t input[3];
  size_t kernel[3];
  size_t stride[3];
  size_t padding[3];
  size_t output_padding[3];
  size_t dilation[3];
  const char* chain; /* text, e.g. "bias | max_pool(2) | gelu"; NULL or "": none. Not kept after the call. */
  /* Ops on the input before the convolution, e.g. "batch_norm | leaky_relu(0.1)": those that see one element and
   * numbers of its channel. Padding is zeros behind them. NULL or "": none. Not kept after the call. */
  const char* prologue;
  /* Channels of the tensors in memory, where those of the input, or of the output, are a range of a wider tensor's: the
   * pointers then point to the range's first channel in the first image, and channels outside the range are neither
   * read nor written. 0: no more than the problem's own. */
  size_t input_within;
  size_t output_within;
} convt_problem;

#define CONVT_PROBLEM_INIT                                                                                           \
  {                                                                                                                  \
    sizeof(convt_problem), 0, CONVT_F32, CONVT_CHANNELS_FIRST, CONVT_CHANNELS_FIRST, CONVT_FLOAT32_IEEE, 1, 0, 0, 1, \
        {0, 0, 0}, {0, 0, 0}, {1, 1, 1}, {0, 0, 0}, {0, 0, 0}, {1, 1, 1}, NULL, NULL, 0, 0                           \
  }

/* How products of precision CONVT_FLOAT32_TF32 are made on tensor cores. */
typedef enum convt_tf32_products CONVT_INT {
  CONVT_TF32_PRODUCTS_ANY = 0,   /* of f16 where that is faster and as good (docs/numerics.md), else of tf32; or
                                  * what the environment variable CONVT_TF32 says, "any" or "native" */
  CONVT_TF32_PRODUCTS_NATIVE = 1 /* of tf32 alone */
} convt_tf32_products;

/* How products of precision CONVT_FLOAT32_IEEE are made on GPUs. */
typedef enum convt_ieee_products CONVT_INT {
  CONVT_IEEE_PRODUCTS_ANY =
      0,                        /* of three products of tf32 where tensor cores have these, with float32's digits
                                 * (docs/numerics.md); or what the environment variable CONVT_IEEE says, "any" or "plain" */
  CONVT_IEEE_PRODUCTS_PLAIN = 1 /* by plain multiply-adds alone */
} convt_ieee_products;

/* How to run it. A NULL pointer to options means CONVT_PLAN_OPTIONS_INIT. */
typedef struct convt_plan_options {
  size_t struct_size;     /* sizeof(convt_plan_options) */
  convt_device device;    /* where the tensors live */
  int device_index;       /* which one, for CUDA */
  const char* engine;     /* NULL or "": what the environment variable CONVT_ENGINE names or, without it, the first that
                           * accepts; else that one alone, e.g. "reference", or one of an engine's candidates, by the
                           * name that convt_plan_explain() shows, e.g. "cpu avx512 store" */
  size_t workspace_limit; /* bytes of workspace a plan may ask for; 0: no limit */
  convt_tf32_products tf32_products;
  convt_ieee_products ieee_products;
} convt_plan_options;

#define CONVT_PLAN_OPTIONS_INIT \
  { sizeof(convt_plan_options), CONVT_DEVICE_CPU, 0, NULL, (size_t)0, CONVT_TF32_PRODUCTS_ANY, CONVT_IEEE_PRODUCTS_ANY }

typedef struct convt_plan convt_plan;

/* *plan is set to the new plan, or to NULL when the status is not CONVT_OK. */
CONVT_API convt_status convt_plan_create(convt_plan** plan, const convt_problem* problem,
                                         const convt_plan_options* options);
CONVT_API convt_status convt_plan_create_from_text(convt_plan** plan, const char* text,
                                                   const convt_plan_options* options);
/* NULL is allowed. */
CONVT_API void convt_plan_destroy(convt_plan* plan);

/* The plan's problem, as a struct that makes the same plan. Set problem->struct_size first (CONVT_PROBLEM_INIT does);
 * its texts belong to the plan and live as long as it does. */
CONVT_API convt_status convt_plan_problem(const convt_plan* plan, convt_problem* problem);

typedef struct convt_tensor_info {
  char name[48]; /* "input", "kernel", "output", or e.g. "layer_norm.weight", "prologue.batch_norm.mean" */
  size_t stage;  /* for an operand, the 0-based position in the prologue or chain of the op that takes it; else 0 */
  convt_dtype dtype;
  /* Of input, output and whole-tensor operands; the rest is row-major, and says CONVT_CHANNELS_FIRST here. */
  convt_layout layout;
  size_t rank;
  /* Whatever the layout: N, C, [D, [H,]] W; kernel: in_channels, out_channels/groups, [D, [H,]] W; per-channel operand:
   * C; operand of layer_norm(trailing=K): the last K of C, [D, [H,]] W. Entries from `rank` on are 0. */
  size_t shape[5];
  size_t bytes; /* from the first element to behind the last: more than the elements' where they are a range */
} convt_tensor_info;

CONVT_API convt_status convt_plan_input_info(const convt_plan* plan, convt_tensor_info* info);
CONVT_API convt_status convt_plan_kernel_info(const convt_plan* plan, convt_tensor_info* info);
CONVT_API convt_status convt_plan_output_info(const convt_plan* plan, convt_tensor_info* info);
/* Elements from one index to the next along each axis of the tensor's shape, N, C, [D, [H,]] W; entries from the rank
 * on are 0. */
CONVT_API convt_status convt_plan_input_strides(const convt_plan* plan, size_t strides[5]);
CONVT_API convt_status convt_plan_output_strides(const convt_plan* plan, size_t strides[5]);
/* Tensors the ops take (biases, norm weights, addends, ...): those of the prologue, then those of the chain. */
CONVT_API size_t convt_plan_operand_count(const convt_plan* plan);
CONVT_API convt_status convt_plan_operand_info(const convt_plan* plan, size_t index, convt_tensor_info* info);

/* Bytes of scratch memory one execution needs. */
CONVT_API convt_status convt_plan_workspace_size(const convt_plan* plan, size_t* bytes);

/* Takes a copy of the kernel in the engine's own arrangement, for kernels that do not change between executions; from
 * then on convt_plan_execute() ignores its `kernel`, which may be NULL. May be called again; if it fails, what was
 * packed before stays in use. No other thread may use the plan meanwhile. `stream` orders the reading of a device
 * kernel, and the call waits for it, so that it cannot be captured into a graph; NULL otherwise. */
CONVT_API convt_status convt_plan_pack_kernel(convt_plan* plan, const void* kernel, void* stream);

/* Threads that a caller lends to an execution on the CPU, which then leaves the library's own pool alone: for programs
 * that have threads already, which would share their cores with the pool's. Start from CONVT_THREAD_POOL_INIT. */
typedef struct convt_thread_pool {
  size_t struct_size; /* sizeof(convt_thread_pool) */
  size_t num_threads; /* that may work at once, the calling one included; 0: convt_get_num_threads() */
  /* Calls task(argument, index) for every index below `tasks`, which is at most num_threads: in any order, in any
   * threads, each at most once; and returns when all these calls have returned. They share the work out among
   * themselves: one that is called late, or in the calling thread behind others, finds less to do, and what a task that
   * was never called should have done is done after the return. So it need not fail where there are no threads, and
   * must not throw. `task` does not fail either, and leaves its thread as it was. Executions call this from any thread
   * that calls convt_plan_execute(), several times each, one after the other. */
  void (*parallel_for)(void* context, size_t tasks, void (*task)(void* argument, size_t index), void* argument);
  void* context; /* passed to parallel_for */
} convt_thread_pool;

#define CONVT_THREAD_POOL_INIT \
  { sizeof(convt_thread_pool), 0, NULL, NULL }

typedef struct convt_tensors {
  size_t struct_size; /* sizeof(convt_tensors) */
  const void* input;
  const void* kernel;
  void* output;
  const void* const* operands; /* convt_plan_operand_count() pointers, in that order */
  size_t operand_count;
  /* Scratch memory. NULL: the library provides it, and keeps it for later calls (on a device, of that stream). Else
   * 64-byte aligned, in the plan's memory, overlapping no tensor, and not in use by another execution at the same time.
   * Its contents mean nothing afterwards. */
  void* workspace;
  size_t workspace_size; /* bytes at workspace, at least convt_plan_workspace_size() */
  void* stream;          /* a cudaStream_t, for device plans */
  /* What the caller believes the tensors' sizes to be, in bytes: checked against the plan's before anything is touched.
   * A range of a wider tensor's channels may have more behind it. 0, or NULL for all operands: not said. */
  size_t input_bytes;
  size_t kernel_bytes;
  size_t output_bytes;
  const size_t* operand_bytes; /* operand_count of them */
  /* Whose threads compute this on the CPU. NULL: the library's own. Results do not depend on it. */
  const convt_thread_pool* thread_pool;
} convt_tensors;

#define CONVT_TENSORS_INIT \
  { sizeof(convt_tensors), NULL, NULL, NULL, NULL, 0, NULL, 0, NULL, 0, 0, 0, NULL, NULL }

CONVT_API convt_status convt_plan_execute(const convt_plan* plan, const convt_tensors* tensors);

/* Both texts belong to the plan and live as long as it does. NULL only when plan is NULL or memory runs out. */
CONVT_API const char* convt_plan_text(const convt_plan* plan); /* the problem, in its canonical text form */
CONVT_API const char* convt_plan_explain(
    const convt_plan* plan); /* shapes, work, the engines asked and why, the choice */

/* Products (multiply-adds) of the convolution: those that some element of the output needs, and those a scatter over
 * all inputs would form, cropped outputs and outputs that a pool drops included. For very large kernels or pools
 * `needed` is an upper bound. */
CONVT_API convt_status convt_plan_products(const convt_plan* plan, double* needed, double* scattered);

/* The time of one execution in seconds, as the engine's cost model predicts it for the plan's device: the number by
 * which the plan was chosen. No measurement: docs/gpu.md and docs/cpu.md say what the models count. */
CONVT_API convt_status convt_plan_predicted_seconds(const convt_plan* plan, double* seconds);

/* The engine that executes the plan, e.g. "reference". Lifetime and NULL as above. */
CONVT_API const char* convt_plan_engine(const convt_plan* plan);

/* ---- the vocabulary, for bindings, help texts and tests. Strings are static. */

typedef struct convt_op_description {
  const char* name;      /* "leaky_relu" */
  const char* signature; /* "leaky_relu(slope=0.01)" */
  const char* about;     /* one line */
  const char* torch;     /* the same in PyTorch: a Python expression over x, the parameters and the operands. F is
                          * torch.nn.functional; max_pool and avg_pool are F's for the problem's dims; a per-channel
                          * `other` is reshaped to C, 1, ... */
  const char* examples;  /* uses of it, one per line */
} convt_op_description;

CONVT_API size_t convt_op_count(void);
CONVT_API convt_status convt_op_describe(size_t index, convt_op_description* description);

typedef struct convt_named_problem_description {
  const char* slug;           /* "conv-transpose3d-max-max-sum" */
  const char* parameters;     /* names of the sizes and scalars, in the order of the C functions, separated by spaces */
  const char* chain;          /* text; a parameter's name stands where its value goes */
  const char* benchmark_case; /* text of the case that benchmarks use */
  const char* demo_case;      /* the same, with batch and image reduced */
} convt_named_problem_description;

CONVT_API size_t convt_named_problem_count(void);
CONVT_API convt_status convt_named_problem_describe(size_t index, convt_named_problem_description* description);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* CONVT_CONVT_H */
