// SPDX-License-Identifier: Apache-2.0
// Sums over all of space without a convolution (plan/sums.hpp). A first loop sums the cells of the input, in bands of
// rows: columns first, by vectors, then the columns of each cell. Sums of boxes consist of these. A second loop
// multiplies them by the weights. All sums are in double. Bands, and the order of every sum, depend on the shape alone.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "cpu/isa.hpp"
#include "cpu/threads.hpp"
#include "plan/sums.hpp"

namespace convt::core::cpu {

template <class T>
class SpaceSums {
 public:
  SpaceSums(const SpaceSum& sum, const Isa& isa);

  const std::string& rejection() const { return rejection_; }  // why it cannot run; then nothing else may be asked
  std::string explain() const { return explain_sums(taps_, cells_); }
  double cycles() const;                           // predicted, of one thread, for all images
  std::int64_t images() const { return images_; }  // of a run, at most
  std::int64_t items() const;                      // of a run, for threads to share
  std::int64_t shared_size() const;                // doubles, for a run
  std::int64_t slot_size() const;                  // doubles, for a thread

  struct Job {
    Interval images;
    const void* input = nullptr;   // of the batch
    const void* kernel = nullptr;  // the program's
    convt_dtype kernel_dtype = CONVT_F32;
    std::span<const BoundStep<T>> prologue{};
    Crew crew;
    double* shared = nullptr;
    std::byte* slots = nullptr;  // of slot_size(), `slot_step` bytes apart
    std::size_t slot_step = 0;
    T* results = nullptr;          // one per image and output channel
    std::int64_t result_step = 0;  // from image to image
  };
  void run(const Job& job) const;

 private:
  // Some rows of one cell of D and H.
  struct Band {
    std::int64_t cell = 0;  // of D and H
    Interval z, y, x;
  };
  struct Source;  // some channels of one image

  std::string refusal() const;
  void cut_bands();
  void choose_sizes();
  void sum_cells(const Job& job, std::int64_t item, double* scratch) const;
  void sum_band(const Source& source, const Band& band, double* partials, double* scratch) const;
  void sum_strip(const Source& source, const Band& band, const Interval& x, double* columns, T* tile) const;
  struct Rows {
    std::int64_t count = 0, step = 0;
  };
  void add_to_columns(const Band& band, const Interval& x, const T* from, const Rows& rows, double* to) const;
  bool is_folded(const Band& band) const;
  template <class Body>
  void for_cells(const Interval& strip, const Body& body) const;
  void join_boxes(const double* partials, double* boxes, double* scratch) const;
  void multiply(const Job& job, std::int64_t item, double* scratch) const;

  bool directly() const;  // the tensor is read as it is
  std::int64_t partials_each() const { return static_cast<std::int64_t>(bands_.size()) * axes_[2].cells(); }
  double* boxes_of(const Job& job, std::int64_t image, std::int64_t channel) const;

  std::shared_ptr<const Program> program_;
  double factor_ = 1;
  const ChainKernels<T>& chain_;
  const SumKernels<T>& kernels_;
  std::string rejection_;
  std::int64_t taps_ = 1, cells_ = 1;
  std::array<CellAxis, 3> kernel_axes_;  // as the convolution has them
  std::array<CellAxis, 3> axes_;         // of the input, where axes of one cell have become one with those before
  std::vector<bool> live_;               // by tap: it takes some input
  std::vector<Band> bands_;
  std::vector<Interval> groups_;  // of bands: an item each
  std::int64_t images_ = 1;
  std::int64_t tile_channels_ = 1;  // read at once
  std::int64_t item_channels_ = 1;  // summed by an item
  std::int64_t most_columns_ = 1;   // of one channel
  std::int64_t tile_pixels_ = 1;    // of one channel
  std::int64_t rows_together_ = 1;  // rows that follow each other, as one row of columns
  std::int64_t outs_together_ = 1;  // output channels of an item of products
  std::int64_t period_ = 1;         // of its factors
};

}  // namespace convt::core::cpu
