// SPDX-License-Identifier: Apache-2.0
// Chains that run as register programs on Hopper (src/cuda/sm90/config/program.hpp), drawn from lists of ops.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

namespace convt::testing {

// Every op that sees one element, and operands of each kind. Batch norms and numbers become multiply-adds.
inline const std::vector<std::string> pointwise = {"bias",
                                                   "add(0.25)",
                                                   "sub(channel)",
                                                   "mul(-1.5)",
                                                   "mul(channel)",
                                                   "div(0.75)",
                                                   "batch_norm(affine)",
                                                   "clamp(-0.5, 1)",
                                                   "clamp(min=-0.25)",
                                                   "relu",
                                                   "leaky_relu",
                                                   "leaky_relu(0.2)",
                                                   "elu(alpha=0.5)",
                                                   "gelu",
                                                   "gelu(tanh)",
                                                   "silu",
                                                   "sigmoid",
                                                   "tanh",
                                                   "hardtanh(-0.5, 0.75)",
                                                   "hardswish",
                                                   "hardsigmoid",
                                                   "mish",
                                                   "softplus",
                                                   "softplus(beta=2, threshold=1.5)",
                                                   "prelu",
                                                   "prelu(dtype=f32)"};
// More of them, tried alone: behind others they would jump, or make much of a last digit.
inline const std::vector<std::string> more_pointwise = {"prelu(0.25)",
                                                        "relu6",
                                                        "celu(0.5)",
                                                        "selu",
                                                        "softsign",
                                                        "logsigmoid",
                                                        "hardshrink(0.25)",
                                                        "threshold(0.1, 0.2)",
                                                        "abs",
                                                        "abs | add(0.5) | sqrt",
                                                        "abs | add(0.5) | log",
                                                        "abs | add(0.5) | pow(-1.5)",
                                                        "clamp(-2, 2) | exp",
                                                        "snake"};

// With whole tensors and the convolution's own result.
inline const std::vector<std::string> with_tensors = [] {
  std::vector<std::string> all = {
      "add(tensor)", "sub(tensor)", "mul(tensor)", "add(tensor, dtype=f32)", "div(tensor)", "mul(tensor, dtype=f32)",
      "add(conv)",   "mul(conv)"};
  for (const char* const op : {"bias", "tanh", "leaky_relu", "silu", "clamp(-0.5, 1)", "prelu"}) all.push_back(op);
  return all;
}();

// With steps over channels; behind a reduction there is one, so that no tensor of before lies as the results do.
inline const std::vector<std::string> mixing = {"layer_norm(channels)",
                                                "layer_norm(channels, affine, eps=0.01)",
                                                "rms_norm(channels, eps=0.25)",
                                                "softmax",
                                                "log_softmax",
                                                "bias",
                                                "tanh",
                                                "mul(channel)",
                                                "silu",
                                                "leaky_relu"};
inline const std::vector<std::string> reductions = {"min", "max", "logsumexp", "tanh | mean", "elu | sum"};

inline std::string draw_chain(const std::vector<std::string>& ops, std::uint64_t seed, std::size_t most = 6) {
  std::mt19937_64 random(seed);
  std::string chain;
  for (std::size_t left = 1 + random() % most; left > 0; --left) chain += " | " + ops[random() % ops.size()];
  return chain;
}

// Keeps values by name and uses them, one after the other. mixes: after a norm, and before a reduction, by turns.
inline std::string draw_kept(std::uint64_t seed, bool mixes) {
  std::mt19937_64 random(seed);
  const std::vector<std::string> uses = {"mul", "add", "sub"};
  std::string chain;
  if (mixes && seed % 2 == 0) chain += " | layer_norm(channels)";
  if (!mixes && seed % 3 == 0) chain += " | add(tensor)";
  for (const std::string name : {"a", "b"}) {
    chain += " | " + pointwise[random() % pointwise.size()] + " | keep(" + name + ")";
    for (std::uint64_t left = 1 + random() % 2; left > 0; --left) {
      chain += " | " + pointwise[random() % pointwise.size()];
      chain += " | " + uses[random() % uses.size()] + "(" + name + ")";
    }
    if (random() % 2 == 0) break;
  }
  if (mixes && seed % 2 == 1) chain += " | " + reductions[seed % reductions.size()];
  return chain;
}

// Ends with a reduction, or begins with a tensor, by turns.
inline std::string draw_mixing(std::uint64_t seed) {
  const std::string chain = draw_chain(mixing, seed, 3);
  if (seed % 2 == 0) return " | add(tensor)" + chain;
  return chain + " | " + reductions[seed % reductions.size()] + (seed % 3 == 0 ? " | tanh" : "");
}

}  // namespace convt::testing
