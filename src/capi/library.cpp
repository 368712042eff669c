// SPDX-License-Identifier: Apache-2.0
// Status, error text, settings, 16-bit elements and the vocabulary.
#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "base/dtype.hpp"
#include "base/lazy.hpp"
#include "base/settings.hpp"
#include "capi/guard.hpp"
#include "epilogue/text.hpp"
#include "problem/named.hpp"

namespace convt::capi {
namespace {

constexpr std::size_t longest_message = 2048;
thread_local char last_error[longest_message] = "";

#define CONVT_TEXT_OF(x) #x
#define CONVT_TEXT(x) CONVT_TEXT_OF(x)
constexpr const char* version =
    CONVT_TEXT(CONVT_VERSION_MAJOR) "." CONVT_TEXT(CONVT_VERSION_MINOR) "." CONVT_TEXT(CONVT_VERSION_PATCH);

// Zero-terminated copies of what the tables hold, made once.
struct OpStrings {
  std::string name, signature, about, torch, examples;
};
constinit core::Lazy<std::vector<OpStrings>> all_op_strings;
const std::vector<OpStrings>& op_strings() {
  return all_op_strings.get([] {
    std::vector<OpStrings> rows;
    for (const core::OpDescription& op : core::op_descriptions())
      rows.push_back(
          {std::string(op.name), op.signature, std::string(op.about), std::string(op.torch), std::string(op.examples)});
    return rows;
  });
}

struct ProblemStrings {
  std::string slug, parameters, chain, benchmark, demo;
};
constinit core::Lazy<std::vector<ProblemStrings>> all_problem_strings;
const std::vector<ProblemStrings>& problem_strings() {
  return all_problem_strings.get([] {
    std::vector<ProblemStrings> rows;
    for (const core::NamedProblem& row : core::named_problems())
      rows.push_back({std::string(row.slug), std::string(row.parameters), std::string(row.chain),
                      core::example_case(row, row.benchmark), core::example_case(row, row.demo)});
    return rows;
  });
}

template <class T>
const T& row_of(const std::vector<T>& rows, std::size_t index) {
  if (index >= rows.size()) core::reject("index", "must be below {} (got {})", rows.size(), index);
  return rows[index];
}

}  // namespace

convt_status fail(convt_status status, const char* message) noexcept {
  std::snprintf(last_error, sizeof last_error, "%s", message);
  return status;
}

}  // namespace convt::capi

using namespace convt;
using convt::capi::guard;

extern "C" {

const char* convt_status_name(convt_status status) {
  static constexpr const char* names[] = {"ok",           "invalid_argument", "unsupported", "out_of_memory",
                                          "device_error", "internal_error"};
  const auto index = static_cast<unsigned>(status);
  return index < std::size(names) ? names[index] : "unknown";
}

const char* convt_last_error(void) { return capi::last_error; }
const char* convt_version(void) { return capi::version; }

convt_status convt_set_num_threads(size_t num_threads) {
  return guard([&] {
    constexpr std::size_t most = 1 << 16;
    if (num_threads > most) core::reject("num_threads", "must be at most {} (got {})", most, num_threads);
    core::set_num_threads(num_threads);
  });
}
size_t convt_get_num_threads(void) { return core::num_threads(); }

convt_status convt_set_float32_precision(convt_float32_precision precision) {
  return guard([&] {
    if (precision != CONVT_FLOAT32_IEEE && precision != CONVT_FLOAT32_TF32)
      core::reject("precision", "must be CONVT_FLOAT32_IEEE or CONVT_FLOAT32_TF32 (got {})",
                   static_cast<int>(precision));
    core::thread_settings().precision = precision;
  });
}
convt_float32_precision convt_get_float32_precision(void) { return core::thread_settings().precision; }

convt_status convt_set_stream(void* stream) {
  core::thread_settings().stream = stream;
  return CONVT_OK;
}
void* convt_get_stream(void) { return core::thread_settings().stream; }

convt_f16 convt_f16_from_double(double value) { return core::from_double<convt_f16>(value); }
convt_bf16 convt_bf16_from_double(double value) { return core::from_double<convt_bf16>(value); }
double convt_f16_to_double(convt_f16 value) { return core::to_double(value); }
double convt_bf16_to_double(convt_bf16 value) { return core::to_double(value); }

size_t convt_op_count(void) { return std::size(core::op_names); }

convt_status convt_op_describe(size_t index, convt_op_description* description) {
  return guard([&] {
    const auto& op = capi::row_of(capi::op_strings(), index);
    capi::not_null("description", description) = {op.name.c_str(), op.signature.c_str(), op.about.c_str(),
                                                  op.torch.c_str(), op.examples.c_str()};
  });
}

size_t convt_named_problem_count(void) { return core::named_problems().size(); }

convt_status convt_named_problem_describe(size_t index, convt_named_problem_description* description) {
  return guard([&] {
    const auto& row = capi::row_of(capi::problem_strings(), index);
    capi::not_null("description", description) = {row.slug.c_str(), row.parameters.c_str(), row.chain.c_str(),
                                                  row.benchmark.c_str(), row.demo.c_str()};
  });
}

}  // extern "C"
