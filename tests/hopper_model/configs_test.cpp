// SPDX-License-Identifier: Apache-2.0
// Every kernel of config/configs.def, by config, format, columns and whether it runs register programs: a case for
// each, with a tile of its config, against the reference. The model says which kernels were launched.
#include <cxxabi.h>
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <typeinfo>
#include <utility>
#include <vector>

#include "check.hpp"
#include "cuda/sm90/config/config.hpp"
#include "hopper_model/cases.hpp"
#include "hopper_model/machine.hpp"
#include "hopper_model/runtime.hpp"
#include "support/environment.hpp"

namespace convt::core::cuda::sm90 {
struct ProgramEpilogue;
}

namespace convt::testing {
using namespace core::cuda::sm90;

// Has the parameters of KernelTraits (kernel/traits.cuh).
template <class E, Format format, int columns, Config config, class Program>
struct KernelKey {};

namespace {

std::string demangled(const char* name) {
  const std::unique_ptr<char, void (*)(void*)> text(abi::__cxa_demangle(name, nullptr, nullptr, nullptr), std::free);
  return text == nullptr ? name : text.get();
}
// The arguments of the template in a type's or function's name.
std::string arguments_in(const std::string& name, const std::string& of) {
  const std::size_t at = name.find(of + "<");
  if (at == std::string::npos) return "";
  std::size_t begin = at + of.size() + 1, end = begin;
  for (int depth = 1; end < name.size(); ++end) {
    depth += name[end] == '<' ? 1 : name[end] == '>' ? -1 : 0;
    if (depth == 0) break;
  }
  return name.substr(begin, end - begin);
}
// The parameters of the convolution's kernels that were launched since the list was cleared.
std::set<std::string> launched_kernels() {
  std::set<std::string> all;
  for (const void* kernel : hopper_model::launched()) {
    Dl_info info{};
    if (dladdr(kernel, &info) != 0 && info.dli_sname != nullptr)
      all.insert(arguments_in(demangled(info.dli_sname), "KernelTraits"));
  }
  return all;
}

struct Kernel {
  ConfigRow row;
  std::string format_name, key;
  Format format;
  int element, columns;
  bool program;

  std::string print() const {
    return std::string(row.name) + ", " + format_name + ", " + std::to_string(columns) + " columns" +
           (program ? ", program" : "");
  }
};

constexpr int columns_of_kernels[] = {all_columns[0], all_columns[1], all_columns[2], all_columns[3], most_columns};

// Appends the kernels of one config, format and number of columns.
template <class E, Format format, Config config, int columns>
void add_kernels(const std::string& format_name, std::vector<Kernel>& to) {
  const auto add = [&]<class Program>(bool program) {
    if (has_kernel(config, columns, format, sizeof(E), program))
      to.push_back({row_of(config), format_name,
                    arguments_in(demangled(typeid(KernelKey<E, format, columns, config, Program>).name()), "KernelKey"),
                    format, static_cast<int>(sizeof(E)), columns, program});
  };
  add.template operator()<void>(false);
  add.template operator()<ProgramEpilogue>(true);
}
template <class E, Format format>
std::vector<Kernel> kernels_of(const std::string& name) {
  std::vector<Kernel> all;
  const auto add_config = [&]<Config config>() {
    [&]<std::size_t... i>(std::index_sequence<i...>) {
      (add_kernels<E, format, config, columns_of_kernels[i]>(name, all), ...);
    }
    (std::make_index_sequence<std::size(columns_of_kernels)>());
  };
#define CONVT_CONFIG(name, ...) add_config.template operator()<configs::name>();
#include "cuda/sm90/config/configs.def"
#undef CONVT_CONFIG
  return all;
}
// By the name of their format.
std::map<std::string, std::vector<Kernel>> all_kernels() {
  std::map<std::string, std::vector<Kernel>> all;
#define CONVT_FORMAT(name, E, format, ...) all[#name] = kernels_of<E, Format::format>(#name);
#include "cuda/sm90/config/formats.def"
#undef CONVT_FORMAT
  return all;
}

// A small case that a config's policies need: its phases, channels and output rows, and a chain that its epilogue runs.
std::string case_of(const Kernel& kernel) {
  const Config& config = kernel.row.config;
  const bool wide = kernel.columns == most_columns;  // for norms alone
  const std::string mode = kernel.element == 4 ? is_split(kernel.format) ? "dtype=f32" : "dtype=f32 precision=tf32"
                                               : "dtype=" + kernel.format_name;
  const std::string channels = "->" + std::to_string(wide ? 100 : kernel.columns);
  std::string chain = kernel.program ? " | bias | tanh" : " | bias";
  if (wide) chain = kernel.program ? " | softmax" : " | layer_norm(channels)";
  std::string shape = config.joint() == 2 ? " input=3x9 kernel=3 stride=2" : " input=3x9 kernel=2";
  if (config.in_strip()) chain = " | add(tensor) | max";  // the tensor does not lie as the results do
  if (config.folds()) {
    shape = " input=3x8 kernel=2 stride=2";
    chain = wide ? " | layer_norm(channels) | avg_pool(2)" : " | relu | avg_pool(2)";
  }
  if (config.hands_over()) {
    shape = " input=3x8 kernel=2 stride=2";
    chain = " | max_pool(2)";
  }
  if (config.duplicates()) shape = " input=3x8 kernel=2 stride=2";
  if (config.slides()) shape = " input=5x9 kernel=3 padding=1";
  if (config.swaps()) shape = " input=10x16 kernel=3";
  // Chunks of channels, two or four instructions in the only one, or any.
  const std::string in = config.is_k_heavy() ? "140" : config.hands_over() ? "32" : "16";
  return in_mode("2d channels=" + in + channels + shape + chain, mode);
}

// A tile of the config: its letter comes before the group axis and the size, and f before that if there is a range
// guard.
std::string tile_of(const Kernel& kernel, const std::string& text) {
  const std::string letters = (is_guarded(kernel.format, kernel.element) ? "f" : "") + std::string(kernel.row.letter);
  for (const std::string& tile : tiles_of(text))
    if (tile.substr(0, tile.find_first_of("0123456789") - 1) == letters) return tile;
  return "";
}

class HopperModelKernels : public ::testing::TestWithParam<std::string> {};

TEST_P(HopperModelKernels, AreAllMet) {
  bool late = false;
  const std::map<std::string, std::vector<Kernel>> kernels = all_kernels();
  for (const Kernel& kernel : kernels.at(GetParam())) {
    const std::string text = case_of(kernel);
    const std::string tile = kernel.row.config.in_strip() ? "" : tile_of(kernel, text);
    EXPECT_TRUE(kernel.row.config.in_strip() || !tile.empty()) << kernel.print() << ": no tile for " << text;
    const WithVariable forced("CONVT_TILE", tile), native("CONVT_TF32", kernel.format_name == "tf32" ? "native" : "");
    hopper_model::launched().clear();
    late = !late;
    // Of the seeds, this one draws outputs that begin at addresses which divide by 16.
    constexpr std::uint64_t seed = 2;
    hopper_model::set_schedule({late, seed});
    // Of a fold, the convolution alone has no such tile; another engine may take it.
    const cli::CaseReport report = cli::check_case(text, seed, {.device = Device::cuda});
    EXPECT_EQ(report.engine, engine_name) << kernel.print() << ": " << text;
    EXPECT_EQ(report.defect, "") << kernel.print() << ": " << text << ", tile " << tile;
    EXPECT_TRUE(launched_kernels().contains(kernel.key)) << kernel.print() << ": " << text << ", tile " << tile;
  }
}

const std::vector<std::string> formats = {
#define CONVT_FORMAT(name, ...) #name,
#include "cuda/sm90/config/formats.def"
#undef CONVT_FORMAT
};
INSTANTIATE_TEST_SUITE_P(Formats, HopperModelKernels, ::testing::ValuesIn(formats),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace convt::testing
