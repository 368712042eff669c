// SPDX-License-Identifier: Apache-2.0
// The convolution of one item: some images, a box of outputs, some output channels.
//
// The inputs that the box sees are read once, as T, into a patch with zeros outside the image; there, some channels at
// a time, they go through the prologue. Two ways from there: direct: the microkernel reads the patch itself. Positions
// run over whole planes of it, so that the ends of rows are
//   computed and thrown away, or over whole vectors of each row, whichever are fewer. Phases of W are interleaved on
//   the way out.
// panel: inputs are gathered, for each class and for some input channels at a time, to dense runs of positions, over
//   several images if need be. For short rows, where the copy is small beside the products of many output channels, and
//   for so many input channels that a patch does not stay in cache.
#pragma once

#include <span>
#include <vector>

#include "cpu/kernels.hpp"
#include "plan/phases.hpp"

namespace convt::core::cpu {

// How a convolution is cut into items and how an item is computed.
struct Blocking {
  unsigned merged = 0;  // axes whose phases are merged, one bit each
  bool panel = false;
  std::int64_t images = 1;    // of an item
  std::int64_t channels = 1;  // output channels of an item; with several groups, whole groups
  std::int64_t chunk = 1;     // panel: input channels at a time, or those of a part of the sums if they are more
  std::int64_t bundle = 1;    // output channels of an item at a time; with several groups, all
  bool late = false;          // items pack a bundle's weights themselves, just before its products
};

// Bytes of one row of sums of a run: with 8 rows, a fraction of a first-level cache of 32 KiB.
inline constexpr std::int64_t most_sums = 2048;
// Planes of positions that make one run of the direct way: as many as its sums allow.
constexpr std::int64_t direct_run(std::int64_t planes, std::int64_t plane_bytes) {
  const std::int64_t fit = most_sums / plane_bytes;
  return fit < 1 ? 1 : fit < planes ? fit : planes;
}

// Where an item's outputs go: element (image, channel, d, h, w), counted within the item, at the sum of the steps.
template <class T>
struct Destination {
  T* data = nullptr;
  std::int64_t image_step = 0, channel_step = 0, plane_step = 0, row_step = 0;
  bool stream = false;  // past the caches
};

// Rows of positions on their way to rows of outputs: some phases of W of a channel, or of several with one phase each.
template <class T>
struct RowsOut {
  const T* from = nullptr;
  T* to = nullptr;
  std::int64_t from_step = 0, to_step = 0, rows = 0, channels = 1;
  std::int64_t first_phase = 0, phases = 1;  // of the class
};
// Rows of sums on their way out: for each class of W that is there, rows of (image, plane, row, column) of positions.
struct Sums {
  std::int64_t channel = 0;  // of the item, where row 0 of the class belongs
  Interval rows;             // of the class
  ClassAxes axes{};          // the first class of W
  std::size_t classes = 1;   // of W, from there on
  Interval d, h;             // positions
  std::int64_t images = 1;
  std::int64_t class_step = 0, image_step = 0, plane_step = 0, row_step = 0;
};

template <class T>
class Convolver {
 public:
  // `outputs`: the intervals that boxes have, by axis.
  Convolver(const Convolution& convolution, const Blocking& blocking, const ConvKernels<T>& kernels,
            const std::array<std::vector<Interval>, 3>& outputs);

  Convolver(const Convolver&) = delete;  // classes point into phases_
  Convolver& operator=(const Convolver&) = delete;

  // Whether 32-bit offsets reach all of a patch and a panel. Where they do not, nothing else may be asked.
  bool fits() const { return fits_; }
  std::int64_t packed_size() const;   // in elements
  std::int64_t scratch_size() const;  // in elements, for one item at a time
  std::int64_t splits() const;        // of the output channels

  // The kernel, (in_channels, out_channels/groups, taps), as the caller has it.
  struct Kernel {
    const void* data = nullptr;
    convt_dtype dtype = CONVT_F32;
  };
  // Memory for packing. An item that packs is given it: where outputs are written, nothing is allocated any more, since
  // no failure may leave them half done.
  struct PackSpace {
    std::vector<typename PackTaps<T>::Place> places;
    std::vector<std::byte> blocks;
  };
  void make_room(PackSpace& space) const;  // for this convolver, and for those it was made for before

  // One of pack_parts() shares of packing. Whether all its weights are finite; those that are not are packed as 0,
  // since 0*Inf is NaN and a patch has zeros around the image.
  std::int64_t pack_parts() const;
  bool pack(const Kernel& kernel, std::int64_t part, T* packed) const;

  struct Item {
    std::span<const ImageView> inputs;  // one per image
    std::span<const BoundStep<T>> prologue{};
    bool prologue_keeps_zero = true;  // it makes 0 of 0
    std::array<Interval, 3> outputs;
    std::int64_t split = 0;
    const T* packed = nullptr;   // null: not yet, and the item packs
    bool finite = true;          // what is packed
    Kernel kernel;               // where the item packs, or weights are not finite
    PackSpace* space = nullptr;  // where the item packs
    T* scratch = nullptr;
    Destination<T> to;
  };
  void run(const Item& item, const ChainKernels<T>& chain) const;

  // Output channels of a split.
  Interval channels(std::int64_t split) const;

 private:
  struct Class {
    ClassAxes axes{};
    std::int64_t phases = 1, taps = 1;
    std::int64_t packed_before = 0;         // elements per output channel, of the classes before
    std::vector<std::int32_t> offsets;      // direct: of (input channel, tap) in the patch
    std::vector<std::int64_t> tap_offsets;  // of a tap in the patch, from a position
    std::vector<std::int64_t> kernel_taps;  // by phase, then tap: index in the kernel
    std::vector<Interval> parts;            // of a sum over input channels and taps
  };
  // Rows of the packed weights of one split, group and class.
  struct Rows {
    std::int64_t rows = 0, granule = 1, blocks = 1;
    std::int64_t begin(std::int64_t block) const { return rows / granule * block / blocks * granule; }
  };
  // What the parts of an item share.
  struct Run {
    std::array<Interval, 3> positions;  // of any phase
    std::array<Interval, 3> inputs;
    T *patch = nullptr, *sums = nullptr, *panel = nullptr, *row = nullptr, *bundle = nullptr;
    std::int32_t* starts = nullptr;   // of a run's vectors
    std::int32_t* columns = nullptr;  // where the positions of each class of W begin; -1: it has none
    Interval outs;                    // output channels, of one bundle
    const T* packed = nullptr;        // their weights
  };

  Rows rows_of(const Class& one, std::int64_t outs) const;
  // Some channels' weights, to where they are packed.
  struct Bundle {
    const Kernel& kernel;
    PackSpace& space;
    Interval ins, outs;
    T* to = nullptr;
  };
  bool pack_bundle(const Bundle& bundle) const;
  void drop_nonfinite(const Interval& ins, std::int64_t outs, T* to) const;
  void add_nonfinite(const Item& item, const Run& run) const;
  void add_product(const Item& item, const Run& run, const Axes& tap, T weight, const Axes& channels) const;
  template <class E>
  bool pack_taps(const Bundle& bundle, const E* from) const;
  template <class E>
  bool pack_merged(const Bundle& bundle, const E* from) const;
  void read_patch(const Item& item, const Run& run, const ChainKernels<T>& chain) const;
  std::int64_t prologue_chunk(const Item& item) const;  // channels
  void run_prologue(const Item& item, const Window& window, const ChainKernels<T>& chain, T* to) const;
  void run_direct(const Item& item, const Run& run) const;
  void run_panel(const Item& item, const Run& run) const;
  struct PanelRun {
    std::int64_t group = 0;  // of the item
    Interval outs;
    std::array<Interval, 3> positions{};
    T* sums = nullptr;
  };
  void run_panel_class(const Item& item, const Run& run, const Class& one, const PanelRun& panel) const;
  std::size_t panel_classes() const;
  // Panel: behind the parts from `first` on whose channels are gathered together.
  std::size_t gathered_end(const Class& one, std::size_t first) const;
  void store(const Item& item, const Run& run, const Sums& sums) const;
  void store_rows(const Item& item, const Run& run, const Sums& sums, const RowsOut<T>& out) const;
  // The vectors of a run of positions of one plane: whole rows of the patch end to end, or vectors of each row alone.
  struct Vectors {
    bool by_row = false;
    std::int64_t each_row = 0;    // by row: vectors
    std::int64_t each_plane = 0;  // vectors
    std::int64_t row_step = 0;    // of the sums, in elements
    std::int64_t run = 1;         // planes of a run
  };
  Vectors lay_vectors(std::int64_t rows, std::int64_t width, std::int64_t planes) const;
  void clear(const Item& item) const;
  std::int64_t farthest_tap() const;
  void lay_out_panel(const Axes& positions, std::int64_t most_phases);

  Convolution convolution_;
  Blocking blocking_;
  const ConvKernels<T>& kernels_;
  Phases phases_;
  std::vector<Class> classes_;
  std::int64_t ins_ = 0, outs_ = 0;  // channels of a group
  std::int64_t packed_each_ = 0;     // elements of packed weights per output channel
  Axes extent_{};                    // of the patch, at most
  std::int64_t channel_step_ = 0, image_step_ = 0, patch_size_ = 0;
  std::int64_t run_step_ = 0;  // between rows of sums
  std::int64_t sums_size_ = 0, panel_size_ = 0, panel_class_step_ = 0, starts_size_ = 0;
  std::vector<std::int32_t> panel_offsets_, panel_starts_;
  bool fits_ = true;
};

}  // namespace convt::core::cpu
