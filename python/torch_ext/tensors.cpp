// SPDX-License-Identifier: Apache-2.0
#include "tensors.hpp"

#include <torch/csrc/stable/ops.h>

namespace convt_torch {

namespace {

// Axes from the innermost outwards.
std::array<std::size_t, 5> axes_of(std::size_t rank, convt_layout layout) {
  std::array<std::size_t, 5> axes{};
  std::size_t next = 0;
  const bool channels_last = layout == CONVT_CHANNELS_LAST && rank > 2;
  if (channels_last) axes[next++] = 1;
  for (std::size_t axis = rank; axis-- > 0;) {
    if (!channels_last || axis != 1) axes[next++] = axis;
  }
  return axes;
}

Tensor empty_strided(const Shape& shape, const std::array<std::int64_t, 5>& strides, std::int32_t dtype,
                     const Tensor& like) {
  std::int32_t device_type = 0;
  std::int32_t device_index = 0;
  AtenTensorHandle handle = nullptr;
  STABLE_TORCH_ERROR_CODE_CHECK(aoti_torch_get_device_type(like.get(), &device_type));
  STABLE_TORCH_ERROR_CODE_CHECK(aoti_torch_get_device_index(like.get(), &device_index));
  STABLE_TORCH_ERROR_CODE_CHECK(aoti_torch_empty_strided(static_cast<std::int64_t>(shape.rank), shape.size.data(),
                                                         strides.data(), dtype, device_type, device_index, &handle));
  return Tensor(handle);
}

}  // namespace

Shape shape_of(const Tensor& tensor) {
  Shape shape;
  const auto sizes = tensor.sizes();
  STD_TORCH_CHECK(sizes.size() <= shape.size.size(), "convt: a tensor has ", sizes.size(),
                  " axes; at most 5 are known");
  shape.rank = sizes.size();
  for (std::size_t i = 0; i < shape.rank; ++i) shape.size[i] = sizes[i];
  return shape;
}

std::array<std::int64_t, 5> strides_of(const Shape& shape, convt_layout layout) {
  std::array<std::int64_t, 5> strides{};
  const auto axes = axes_of(shape.rank, layout);
  std::int64_t stride = 1;
  for (std::size_t i = 0; i < shape.rank; ++i) {
    strides[axes[i]] = stride;
    stride *= shape.size[axes[i]] > 1 ? shape.size[axes[i]] : 1;
  }
  return strides;
}

bool is_dense(const Tensor& tensor, const Shape& shape, convt_layout layout) {
  const auto wanted = strides_of(shape, layout);
  const auto strides = tensor.strides();
  for (std::size_t i = 0; i < shape.rank; ++i) {
    if (shape.size[i] == 0) return true;
  }
  for (std::size_t i = 0; i < shape.rank; ++i) {
    if (shape.size[i] > 1 && strides[i] != wanted[i]) return false;
  }
  return true;
}

namespace {

// The channels of the tensor that this one is a range of in that layout; 0 where it is none.
std::int64_t within(const Tensor& tensor, const Shape& shape, convt_layout layout) {
  const auto strides = tensor.strides();
  const bool channels_last = layout == CONVT_CHANNELS_LAST;
  // The innermost axis with more than one element that is outside the channels tells how many there are.
  std::size_t axis = 0;
  std::int64_t step = 1;
  for (std::size_t i = shape.rank; i-- > 2;) {
    if (channels_last && axis == 0 && shape.size[i] > 1) axis = i;
    if (!channels_last) step *= shape.size[i];
  }
  if (shape.size[axis] <= 1 || strides[axis] % step != 0 || strides[axis] / step <= shape.size[1]) return 0;
  Shape wide = shape;
  wide.size[1] = strides[axis] / step;
  const auto wanted = strides_of(wide, layout);
  for (std::size_t i = 0; i < shape.rank; ++i) {
    if (shape.size[i] > 1 && strides[i] != wanted[i]) return 0;
  }
  return wide.size[1];
}

}  // namespace

std::optional<Place> place_of(const Tensor& tensor, const Shape& shape) {
  constexpr convt_layout layouts[] = {CONVT_CHANNELS_FIRST, CONVT_CHANNELS_LAST};
  for (const convt_layout layout : layouts) {
    if (is_dense(tensor, shape, layout)) return Place{layout, 0};
  }
  for (const convt_layout layout : layouts) {
    if (const std::int64_t channels = within(tensor, shape, layout); channels > 0) return Place{layout, channels};
  }
  return std::nullopt;
}

bool suggests_channels_last(const Tensor& tensor, const Shape& shape) {
  if (shape.rank < 4) return false;
  const auto strides = tensor.strides();
  const auto axes = axes_of(shape.rank, CONVT_CHANNELS_LAST);
  // A contiguous tensor with one channel suggests the other format: its channels' stride is that of the batch.
  if (strides[1] == 0) return false;
  std::int64_t least = 0;
  for (std::size_t i = 0; i < shape.rank; ++i) {
    const std::size_t axis = axes[i];
    if (shape.size[axis] == 0 || strides[axis] < least) return false;
    if (axis == 0 && least == strides[1]) return false;
    least = strides[axis];
    if (shape.size[axis] > 1) least *= shape.size[axis];
  }
  return true;
}

Tensor dense(const Tensor& tensor, const Shape& shape, convt_layout layout) {
  if (is_dense(tensor, shape, layout)) return tensor;
  std::int32_t dtype = 0;
  STABLE_TORCH_ERROR_CODE_CHECK(aoti_torch_get_dtype(tensor.get(), &dtype));
  Tensor copy = empty_strided(shape, strides_of(shape, layout), dtype, tensor);
  torch::stable::copy_(copy, tensor);
  return copy;
}

Tensor empty(const Shape& shape, convt_layout layout, const Tensor& like) {
  std::int32_t dtype = 0;
  STABLE_TORCH_ERROR_CODE_CHECK(aoti_torch_get_dtype(like.get(), &dtype));
  return empty_strided(shape, strides_of(shape, layout), dtype, like);
}

Tensor empty_bytes(std::size_t bytes, const Tensor& like) {
  Shape shape;
  shape.rank = 1;
  shape.size[0] = static_cast<std::int64_t>(bytes);
  return empty_strided(shape, {1}, aoti_torch_dtype_uint8(), like);
}

convt_dtype dtype_of(const Tensor& tensor) {
  std::int32_t dtype = 0;
  STABLE_TORCH_ERROR_CODE_CHECK(aoti_torch_get_dtype(tensor.get(), &dtype));
  if (dtype == aoti_torch_dtype_float32()) return CONVT_F32;
  if (dtype == aoti_torch_dtype_float64()) return CONVT_F64;
  if (dtype == aoti_torch_dtype_float16()) return CONVT_F16;
  STD_TORCH_CHECK(dtype == aoti_torch_dtype_bfloat16(),
                  "convt: tensors are float32, float64, float16 or bfloat16, and one is none of them");
  return CONVT_BF16;
}

std::string_view name_of(convt_dtype dtype) {
  constexpr std::string_view names[] = {"f32", "f64", "f16", "bf16"};
  return names[dtype];
}

std::size_t bytes_of(convt_dtype dtype) {
  constexpr std::size_t bytes[] = {4, 8, 2, 2};
  return bytes[dtype];
}

}  // namespace convt_torch
