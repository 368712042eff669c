// SPDX-License-Identifier: Apache-2.0
// Results on a GPU, with the checks of `convt verify`: against the reference engine in f64, the convolution alone
// against the command's own, with poisoned outputs, guards around all memory, and tensors aligned to elements only.
// Golden cases, which PyTorch computed, element by element.
//   CONVT_GPU_CASES  how many random cases (8000), and a quarter as many of larger sizes
//   CONVT_GPU_SEED   of the first (1)
#include <algorithm>
#include <atomic>
#include <cmath>
#include <iostream>
#include <limits>
#include <map>
#include <sstream>

#include "check.hpp"
#include "gpu/support.hpp"
#include "random_case.hpp"
#include "support/engine_cases.hpp"
#include "support/golden.hpp"
#include "support/isas.hpp"

namespace convt::testing {
namespace {

using cli::Fill;

struct Job {
  std::string text;
  std::uint64_t seed;
};

// What many threads find.
class Findings {
 public:
  void add(const std::string& engine, const std::string& failure) {
    const std::lock_guard lock(mutex_);
    ++engines_[engine];
    if (!failure.empty()) failures_.push_back(failure);
  }
  void report(const std::string& what) const {
    constexpr std::size_t most = 20;
    std::cout << what << ":";
    for (const auto& [engine, count] : engines_) std::cout << " " << count << " on " << engine;
    std::cout << ", " << failures_.size() << " failed\n";
    for (std::size_t i = 0; i < std::min(failures_.size(), most); ++i) ADD_FAILURE() << failures_[i];
    EXPECT_EQ(failures_.size(), 0U);
    EXPECT_EQ(engines_.count("reference") + engines_.count("cpu"), 0U);
  }

 private:
  std::mutex mutex_;
  std::map<std::string, std::size_t> engines_;
  std::vector<std::string> failures_;
};

void check_all(const std::string& what, const std::vector<Job>& jobs) {
  Findings findings;
  in_parallel(jobs.size(), [&](std::size_t i, cudaStream_t stream) {
    const Job& job = jobs[i];
    cli::CaseReport report;
    try {
      report = cli::check_case(job.text, job.seed, on_gpu, stream);
    } catch (const Error& error) {
      report.defect = to_string(error.status()) + ": " + error.what();
    }
    const std::string command =
        "convt verify --device cuda --seed " + std::to_string(job.seed) + " '" + job.text + "': ";
    findings.add(report.engine, report.defect.empty() ? "" : command + report.defect);
  });
  findings.report(what);
}

std::vector<Job> with_seeds(const std::vector<std::string>& texts, std::uint64_t seeds = 1) {
  std::vector<Job> jobs;
  for (const std::string& text : texts)
    for (std::uint64_t seed = 0; seed < seeds; ++seed) jobs.push_back({text, jobs.size()});
  return jobs;
}

class GpuCases : public GpuTest {
 protected:
  const std::size_t count_ = variable("CONVT_GPU_CASES", 8000);
  const std::uint64_t seed_ = variable("CONVT_GPU_SEED", 1);
};

TEST_F(GpuCases, Random) {
  std::vector<Job> jobs(count_);
  in_parallel(count_, [&](std::size_t i, cudaStream_t) {
    const std::uint64_t seed = seed_ + i;
    Problem problem = cli::random_case(seed);
    if (problem.dtype == DType::f32 && seed % 4 == 0) problem.precision = Float32Precision::tf32;
    jobs[i] = {Plan(problem, {.engine = "reference"}).text(), seed};
  });
  check_all("random cases from seed " + std::to_string(seed_), jobs);
}

TEST_F(GpuCases, RandomLarger) {
  std::vector<Job> jobs;
  for (std::uint64_t seed = seed_; seed < seed_ + count_ / 4; ++seed) jobs.push_back({draw_case(seed).text, seed});
  check_all("larger random cases from seed " + std::to_string(seed_), jobs);
}

TEST_F(GpuCases, Shapes) { check_all("shapes", with_seeds(shape_cases(), 3)); }

TEST_F(GpuCases, InfinitiesStayWhereTheyReach) { check_all("infinities", with_seeds(infinity_cases(), 15)); }

TEST_F(GpuCases, WholeImages) { check_all("whole images", with_seeds(whole_image_cases())); }

// Smaller slabs, fewer images at a time, and norms over space that compute their inputs again.
TEST_F(GpuCases, LittleWorkspace) {
  std::vector<std::string> texts = whole_image_cases();
  texts.push_back(
      "conv_transpose3d batch=2 channels=8->12 input=20x30x40 kernel=3 stride=2 padding=1 | relu | max_pool(3, "
      "stride=2, "
      "padding=1) | avg_pool(2) | layer_norm(channels) | tanh");
  std::atomic<int> planned = 0, recomputing = 0, cut = 0;
  in_parallel(texts.size(), [&](std::size_t i, cudaStream_t stream) {
    const std::size_t whole = gpu_plan(texts[i]).workspace_size();
    for (const std::size_t share : {2, 8, 32, 128}) {
      PlanOptions options = on_gpu;
      options.workspace_limit = std::max<std::size_t>(whole / share, 1);
      try {
        const std::string text = Plan::from_text(texts[i], options).explain();
        if (explained(text, "chosen").find("recompute") != std::string::npos) ++recomputing;
        if (text.find("slabs of") != std::string::npos) ++cut;
      } catch (const Error& error) {
        EXPECT_EQ(error.status(), Status::unsupported) << error.what();
        continue;
      }
      ++planned;
      EXPECT_EQ(cli::check_case(texts[i], share, options, stream).defect, "")
          << texts[i] << ", " << options.workspace_limit << " bytes";
    }
  });
  EXPECT_GT(planned, 10);
  EXPECT_GT(recomputing, 0);
  EXPECT_GT(cut, 0);
}

// Zeros outside the image never meet weights that are not finite.
TEST_F(GpuCases, WeightsThatAreNotFinite) {
  const Stream stream;
  for (const std::string text :
       {"conv_transpose2d channels=6->5 input=7x9 kernel=3 stride=2 padding=1",
        "conv_transpose2d channels=6->4 input=7x9 kernel=2 stride=3 groups=2 padding=1 | bias | relu",
        "conv_transpose3d precision=tf32 batch=2 channels=9->33 input=4x5x6 kernel=3 padding=1",
        "conv_transpose3d precision=tf32 channels=9->24 input=4x5x6 kernel=3 padding=1",
        "conv_transpose3d dtype=bf16 channels=16->8 input=4x5x8 kernel=3",
        "conv_transpose2d dtype=f16 channels=16->8 input=9x17 kernel=4 stride=2 padding=1 | relu",
        "conv_transpose2d dtype=bf16 batch=2 channels=32->32 input=19x33 kernel=3 stride=2 | max_pool(2) | bias",
        "conv_transpose2d dtype=f16 batch=2 channels=32->64 input=9x17 kernel=3 stride=2 padding=1 output_padding=1 | "
        "layer_norm(channels) | avg_pool(2)",
        "conv_transpose1d dtype=bf16 channels=3->3 input=40 kernel=5 dilation=2 stride=2",
        "conv_transpose1d dtype=f64 channels=3->3 input=40 kernel=5 padding=2"})
    for (const double value : {std::numeric_limits<double>::infinity(), std::nan("")}) {
      Plan plan = gpu_plan(text), reference = Plan::from_text(text, {.engine = "reference"});
      cli::Inputs inputs = cli::make_inputs(plan, 1, Fill::unit);
      std::visit(
          [&](auto& kernel) { kernel[1] = from_double<typename std::decay_t<decltype(kernel)>::value_type>(value); },
          inputs.kernel);
      cli::Execution here(plan, inputs, {.place = place_of(stream)}), there(reference, inputs);
      here.execute();
      there.execute();
      EXPECT_EQ(here.defect(), "") << text;
      const std::vector<double> got = here.output(), expected = there.output();
      std::size_t finite = 0, different = 0;
      for (std::size_t i = 0; i < expected.size(); ++i) {
        finite += std::isfinite(expected[i]) ? 1 : 0;
        const bool same =
            std::isfinite(expected[i])
                ? std::abs(got[i] - expected[i]) <= 0.02 * (1 + std::abs(expected[i]))
                : std::isnan(got[i]) == std::isnan(expected[i]) && (std::isnan(got[i]) || got[i] == expected[i]);
        different += same ? 0 : 1;
      }
      EXPECT_EQ(different, 0U) << text << ", " << value;
      EXPECT_GT(finite, 0U) << text;
      EXPECT_LT(finite, expected.size()) << text;
    }
}

TEST_F(GpuCases, NamedProblems) {
  std::vector<std::string> texts;
  for (const NamedProblemDescription& row : named_problems())
    for (const DType dtype : {DType::f32, DType::f64, DType::f16, DType::bf16}) {
      Problem problem = Plan::from_text(row.demo_case).problem();
      problem.dtype = dtype;
      texts.push_back(Plan(problem).text());
    }
  check_all("named problems", with_seeds(texts, 2));
}

bool is_legal(const std::string& text) {
  try {
    Plan::from_text(text, {.engine = "reference"});
    return true;
  } catch (const Error&) {
    return false;
  }
}

TEST_F(GpuCases, EveryOp) {
  std::vector<std::string> texts;
  for (const OpDescription& op : ops()) {
    std::istringstream examples(op.examples);
    for (std::string example; std::getline(examples, example);) {
      const std::size_t before = texts.size();
      for (const std::string dtype : {"f32", "f64", "f16", "bf16"})
        for (const std::string layout : {"channels_first", "channels_last"})
          for (const std::string shape : {"1d batch=2 channels=3->8 input=70 kernel=4 stride=3",
                                          "2d batch=2 channels=5->12 input=9x13 kernel=3 stride=2 padding=1",
                                          "3d channels=2->6 input=4x5x6 kernel=3x2x3 stride=2x1x2"})
            if (const std::string text =
                    "conv_transpose" + shape + " dtype=" + dtype + " layout=" + layout + " | " + example;
                is_legal(text))
              texts.push_back(text);
      EXPECT_GT(texts.size(), before) << example << " fits no shape here";
    }
  }
  check_all("ops", with_seeds(texts));
}

// ---- golden cases

// Plans fold operands that are no whole tensors, as is right for finite ones.
bool is_folded(const GoldenCase& golden, const Plan& plan) {
  const auto& infos = plan.operand_infos();
  return golden.fill == "special" && std::any_of(infos.begin(), infos.end(), [&](const TensorInfo& info) {
           return info.shape.size() != plan.input_info().shape.size();
         });
}

std::string run(const GoldenCase& golden, Plan& plan, const cli::ExecutionOptions& options, cudaStream_t stream) {
  const std::map<std::string, Fill> fills{
      {"unit", Fill::unit}, {"signed", Fill::signed_unit}, {"special", Fill::special_values}};
  const cli::Inputs inputs = make_inputs(plan, golden.seed, fills.at(golden.fill));
  cli::Execution execution(plan, inputs, options);
  execution.execute();
  if (const std::string defect = execution.defect(); !defect.empty()) return defect;
  const std::vector<double> output = execution.output();
  Buffer got(static_cast<convt_dtype>(plan.output_info().dtype), output.size());
  for (std::size_t i = 0; i < output.size(); ++i) got.set(i, output[i]);
  Tolerance tolerance = of_engine;
  tolerance.any_for_nan = sums_in_kernel(plan.explain());
  // What stands before the convolution is rounded to the tensors' type there, and its errors add up.
  const std::string explained = plan.explain();
  if (explained.find("prologue rounded to") != std::string::npos) tolerance.small = 0.02;
  std::string failure = compare(got, golden.expected, tolerance);
  // So is what is stored before a norm over space or a pool, of which little may be left: check_case() knows how much.
  if (!failure.empty() && explained.find(", rounded to ") != std::string::npos)
    failure = cli::check_case(golden.text, golden.seed, on_gpu, stream).defect;
  return failure;
}

TEST_F(GpuCases, Golden) {
  const std::vector<GoldenCase> cases = load_golden(golden_folder());
  Findings findings;
  std::atomic<std::size_t> ran{0};
  in_parallel(cases.size(), [&](std::size_t i, cudaStream_t stream) {
    const GoldenCase& golden = cases[i];
    std::string engine, failure;
    try {
      Plan plan = gpu_plan(golden.text);
      if (is_folded(golden, plan)) return;
      engine = plan.engine();
      ++ran;
      failure = run(
          golden, plan,
          {.pack_kernel = i % 3 == 1, .own_workspace = i % 3 == 2, .aligned = i % 2 == 0, .place = place_of(stream)},
          stream);
    } catch (const Error& error) {
      failure = to_string(error.status()) + ": " + error.what();
    }
    findings.add(engine, failure.empty() ? "" : golden.text + ", seed " + std::to_string(golden.seed) + ": " + failure);
  });
  findings.report("golden cases");
  EXPECT_GE(ran, cases.size() * 9 / 10);
}

// ---- the same bits

TEST_F(GpuCases, SameBitsEveryRun) {
  std::vector<std::string> texts = chain_cases();
  for (std::uint64_t seed = 0; seed < 40; ++seed) texts.push_back(draw_case(seed).text);
  in_parallel(texts.size(), [&](std::size_t i, cudaStream_t stream) {
    GpuRun run(texts[i], i, {.place = place_of(stream)});
    const std::vector<double> first = run.result();
    for (int repeat = 1; repeat < 20; ++repeat) {
      run.execution.load(run.inputs);
      EXPECT_EQ(run.result(), first) << texts[i];
    }
    GpuRun other(texts[i], i, {.pack_kernel = true, .own_workspace = true, .place = place_of(stream)});
    EXPECT_EQ(other.result(), first) << texts[i];
  });
}

}  // namespace
}  // namespace convt::testing
