// SPDX-License-Identifier: Apache-2.0
// PyTorch's tensors as libconvt takes them: dense in one of two layouts, or a range of such a tensor's channels.
#pragma once

#include <torch/csrc/stable/tensor.h>

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

#include "convt/convt.h"

namespace convt_torch {

using torch::stable::Tensor;

struct Shape {
  std::array<std::int64_t, 5> size{};
  std::size_t rank = 0;

  bool operator==(const Shape&) const = default;
};

Shape shape_of(const Tensor& tensor);

// The strides of a dense tensor.
std::array<std::int64_t, 5> strides_of(const Shape& shape, convt_layout layout);

// Whether a tensor lies in memory as `layout` says; strides of axes of size 1 mean nothing.
bool is_dense(const Tensor& tensor, const Shape& shape, convt_layout layout);

// How a tensor lies in memory: its layout, and the channels of the tensor that it is a range of, or 0.
struct Place {
  convt_layout layout = CONVT_CHANNELS_FIRST;
  std::int64_t within = 0;

  bool operator==(const Place&) const = default;
};

// Nothing: in neither layout.
std::optional<Place> place_of(const Tensor& tensor, const Shape& shape);

// What PyTorch calls the suggested memory format of a tensor of four or five axes: its convolutions go by it.
bool suggests_channels_last(const Tensor& tensor, const Shape& shape);

// The tensor itself where it is dense in this layout, else a copy that is.
Tensor dense(const Tensor& tensor, const Shape& shape, convt_layout layout);

Tensor empty(const Shape& shape, convt_layout layout, const Tensor& like);
Tensor empty_bytes(std::size_t bytes, const Tensor& like);

// "f32", ...; throws for a type that convt does not have.
convt_dtype dtype_of(const Tensor& tensor);
std::string_view name_of(convt_dtype dtype);
std::size_t bytes_of(convt_dtype dtype);

}  // namespace convt_torch
