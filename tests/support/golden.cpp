// SPDX-License-Identifier: Apache-2.0
#include "support/golden.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <limits>
#include <sstream>
#include <stdexcept>

namespace convt::testing {
namespace {

std::size_t element_size(convt_dtype dtype) { return dtype == CONVT_F64 ? 8 : dtype == CONVT_F32 ? 4 : 2; }

template <class T>
T element(const Buffer& buffer, std::size_t i) {
  T value;
  std::memcpy(&value, static_cast<const char*>(buffer.data()) + i * sizeof(T), sizeof(T));
  return value;
}
template <class T>
void put(Buffer& buffer, std::size_t i, T value) {
  std::memcpy(static_cast<char*>(buffer.data()) + i * sizeof(T), &value, sizeof(T));
}

std::uint64_t mix(std::uint64_t z) {
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
  return z ^ (z >> 31);
}

bool ends_with(const std::string& text, const std::string& end) {
  return text.size() >= end.size() && text.compare(text.size() - end.size(), end.size(), end) == 0;
}

// Distance in units of the last place between two 16-bit floats that are no NaN.
int ulps(std::uint16_t a, std::uint16_t b) {
  const auto ordered = [](std::uint16_t bits) { return (bits & 0x8000) != 0 ? -(bits & 0x7fff) : int{bits}; };
  return std::abs(ordered(a) - ordered(b));
}

std::uint16_t bits_of(convt_dtype dtype, double value) {
  return dtype == CONVT_F16 ? convt_f16_from_double(value).bits : convt_bf16_from_double(value).bits;
}

bool close(convt_dtype dtype, double got, double want, double largest, const Tolerance& tolerance) {
  if (std::isnan(want) && tolerance.any_for_nan) return true;
  if (std::isnan(want) || std::isnan(got)) return std::isnan(want) && std::isnan(got);
  const bool small = dtype == CONVT_F16 || dtype == CONVT_BF16;
  if (small && ulps(bits_of(dtype, got), bits_of(dtype, want)) <= tolerance.ulps) return true;
  if (dtype == CONVT_F32) want = static_cast<float>(want);  // past the largest float it is infinite
  if (std::isinf(want) || std::isinf(got)) return got == want;
  const double of_largest = small ? tolerance.small : dtype == CONVT_F32 ? tolerance.f32 : tolerance.f64;
  return std::fabs(got - want) <= of_largest * largest;
}

}  // namespace

Buffer::Buffer(convt_dtype type, std::size_t n) : dtype(type), storage(n * element_size(type) / 8 + 1), count(n) {}

double Buffer::get(std::size_t i) const {
  switch (dtype) {
    case CONVT_F64:
      return element<double>(*this, i);
    case CONVT_F16:
      return convt_f16_to_double(element<convt_f16>(*this, i));
    case CONVT_BF16:
      return convt_bf16_to_double(element<convt_bf16>(*this, i));
    case CONVT_F32:
      break;
  }
  return element<float>(*this, i);
}

void Buffer::set(std::size_t i, double value) {
  switch (dtype) {
    case CONVT_F64:
      return put(*this, i, value);
    case CONVT_F16:
      return put(*this, i, convt_f16_from_double(value));
    case CONVT_BF16:
      return put(*this, i, convt_bf16_from_double(value));
    case CONVT_F32:
      break;
  }
  put(*this, i, static_cast<float>(value));
}

std::size_t element_count(const convt_tensor_info& info) {
  std::size_t count = 1;
  for (std::size_t i = 0; i < info.rank; ++i) count *= info.shape[i];
  return count;
}

Buffer golden_tensor(const GoldenCase& golden, std::size_t index, const convt_tensor_info& info) {
  Buffer buffer(info.dtype, element_count(info));
  const std::string name = info.name;
  for (std::size_t i = 0; i < buffer.count; ++i) {
    const std::uint64_t z =
        mix(golden.seed * 0x9E3779B97F4A7C15 + (index + 1) * 0xBF58476D1CE4E5B9 + i * 0x94D049BB133111EB);
    const double u = static_cast<double>(z >> 11) * 0x1p-53;
    double value = golden.fill == "unit" ? u : 2 * u - 1;
    if (golden.fill == "special" && index != 1) {
      const double infinity = std::numeric_limits<double>::infinity();
      if ((z & 63) == 0) value = std::numeric_limits<double>::quiet_NaN();
      if ((z & 63) == 1) value = infinity;
      if ((z & 63) == 2) value = -infinity;
    }
    if (ends_with(name, ".var")) value = 0.5 + u;
    if (ends_with(name, "div.other")) value = std::copysign(0.5 + u, 2 * u - 1);
    buffer.set(i, value);
  }
  return buffer;
}

std::string compare(const Buffer& got, const std::vector<double>& expected, const Tolerance& tolerance) {
  if (got.count != expected.size()) return "the output has another size than the stored result";
  double largest = 1e-9;
  for (const double value : expected)
    if (std::isfinite(value)) largest = std::max(largest, std::fabs(value));
  for (std::size_t i = 0; i < got.count; ++i)
    if (!close(got.dtype, got.get(i), expected[i], largest, tolerance)) {
      std::ostringstream text;
      text.precision(17);
      text << "element " << i << " is " << got.get(i) << ", expected " << expected[i] << " (largest " << largest << ")";
      return text.str();
    }
  return "";
}

std::string golden_folder() {
  const char* folder = std::getenv("CONVT_GOLDEN_DIR");
  return folder == nullptr ? CONVT_GOLDEN_DIR : folder;
}

std::vector<GoldenCase> load_golden(const std::string& folder) {
  std::ifstream lines(folder + "/cases.txt");
  std::ifstream bytes(folder + "/expected.bin", std::ios::binary);
  if (!lines || !bytes) throw std::runtime_error("no golden data in " + folder);
  std::vector<GoldenCase> cases;
  std::string line;
  while (std::getline(lines, line)) {
    if (line.empty() || line[0] == '#') continue;
    std::istringstream fields(line);
    std::string seed;
    GoldenCase golden;
    std::getline(fields, seed, '\t');
    std::getline(fields, golden.fill, '\t');
    std::getline(fields, golden.text);
    golden.seed = std::stoull(seed);
    convt_plan* plan = nullptr;
    if (convt_plan_create_from_text(&plan, golden.text.c_str(), nullptr) != CONVT_OK)
      throw std::runtime_error(golden.text + ": " + convt_last_error());
    convt_tensor_info output;
    convt_plan_output_info(plan, &output);
    convt_plan_destroy(plan);
    golden.expected.resize(element_count(output));
    bytes.read(reinterpret_cast<char*>(golden.expected.data()),
               static_cast<std::streamsize>(golden.expected.size() * sizeof(double)));
    if (!bytes) throw std::runtime_error("expected.bin ends early at " + golden.text);
    cases.push_back(std::move(golden));
  }
  if (bytes.peek() != std::ifstream::traits_type::eof())
    throw std::runtime_error("expected.bin goes on after its cases");
  return cases;
}

}  // namespace convt::testing
