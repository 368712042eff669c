// SPDX-License-Identifier: Apache-2.0
// The text form: what it accepts, what it prints, and where it says an error is.
#include <gtest/gtest.h>

#include <sstream>
#include <string>

#include "epilogue/text.hpp"
#include "problem/descriptor.hpp"

namespace convt::core {
namespace {

const std::string head = "conv_transpose3d channels=2->4 input=5 kernel=3";

std::string error_of(const std::string& text) {
  try {
    validate(parse_problem(text));
  } catch (const Error& error) {
    EXPECT_EQ(error.status(), CONVT_INVALID_ARGUMENT);
    return error.what();
  }
  return "";
}

std::string canonical(const std::string& text) { return print(parse_problem(text)); }

TEST(Text, CanonicalForm) {
  EXPECT_EQ(canonical("  conv_transpose3d\tkernel=3 input=5x5x5 channels=2->4 stride=1x1x1 batch=1 |relu( )|  gelu"),
            "conv_transpose3d dtype=f32 batch=1 channels=2->4 input=5 kernel=3 | relu | gelu");
  EXPECT_EQ(
      canonical("conv_transpose2d dtype=bf16 layout=channels_last precision=tf32 batch=0 channels=8->8 input=3x4 "
                "kernel=1x2 stride=2x3 padding=0x1 output_padding=1x0 dilation=1x2 groups=8"),
      "conv_transpose2d dtype=bf16 layout=channels_last precision=tf32 batch=0 channels=8->8 input=3x4 kernel=1x2 "
      "stride=2x3 padding=0x1 output_padding=1x0 dilation=1x2 groups=8");
  EXPECT_EQ(canonical("conv_transpose1d channels=1->1 input=9 kernel=2 layout=channels_first->channels_last"),
            "conv_transpose1d dtype=f32 layout=channels_first->channels_last batch=1 channels=1->1 input=9 kernel=2");
  EXPECT_EQ(canonical(head + " | max_pool(3, 2, 1, ceil=false) | leaky_relu(0.01) | hardtanh(-2, max=3)"),
            "conv_transpose3d dtype=f32 batch=1 channels=2->4 input=5 kernel=3 | max_pool(3, stride=2, padding=1) | "
            "leaky_relu | hardtanh(min=-2, max=3)");
  EXPECT_EQ(canonical(head + " | mul(1e-3) | add(-inf) | sub(nan) | div(tensor, dtype=f32) | mul(conv)"),
            "conv_transpose3d dtype=f32 batch=1 channels=2->4 input=5 kernel=3 | mul(0.001) | add(-inf) | sub(nan) | "
            "div(tensor, dtype=f32) | mul(conv)");
  EXPECT_EQ(
      canonical(head + " | keep(name=a) | sum(axes=wc) | mean(axes=c) | mul(a) | prelu(channel) | prelu(0.25)"),
      "conv_transpose3d dtype=f32 batch=1 channels=2->4 input=5 kernel=3 | keep(a) | sum(axes=cw) | mean | mul(a) | "
      "prelu | prelu(other=0.25)");
  // Equal problems have equal texts.
  EXPECT_EQ(
      canonical(head + " | max_pool(2x2x2, stride=2, padding=0) | avg_pool(3, stride=3x3x3) | max_pool(2, stride=1)"),
      "conv_transpose3d dtype=f32 batch=1 channels=2->4 input=5 kernel=3 | max_pool(2) | avg_pool(3) | "
      "max_pool(2, stride=1)");
}

// Every op in every use that its own file shows, and what it prints is read back as the same.
TEST(Text, EveryExampleRoundTrips) {
  for (const OpDescription& op : op_descriptions()) {
    std::istringstream lines{std::string(op.examples)};
    int count = 0;
    for (std::string line; std::getline(lines, line); ++count) {
      const Chain chain = parse_chain("chain", line);
      ASSERT_EQ(chain.size(), 1U) << line;
      EXPECT_EQ(name_of(chain[0]), op.name);
      EXPECT_EQ(print(parse_chain("chain", print(chain))), print(chain));
    }
    EXPECT_GT(count, 0) << op.name << " shows no example";
    EXPECT_FALSE(op.about.empty()) << op.name;
    EXPECT_FALSE(op.torch.empty()) << op.name;
    EXPECT_EQ(op.signature.rfind(op.name, 0), 0U) << op.signature;
  }
}

TEST(Text, EmptyChains) {
  EXPECT_TRUE(parse_chain("chain", "").empty());
  EXPECT_TRUE(parse_chain("chain", " \n").empty());
}

struct Bad {
  const char* text;
  const char* message;  // a part of it
};

TEST(Text, MalformedProblems) {
  const Bad rows[] = {
      {"", "text: column 1: expected a name (got the end)"},
      {"conv3d", "text: column 1: expected conv_transpose1d, conv_transpose2d or conv_transpose3d (got 'conv3d')"},
      {"conv_transpose4d", "column 1"},
      {"conv_transpose3d", "column 17: channels= is missing"},
      {"conv_transpose3d channels=1->1", "input= is missing"},
      {"conv_transpose3d channels=1->1 input=3", "kernel= is missing"},
      {"conv_transpose3d channels=1", "column 28: expected '->'"},
      {"conv_transpose3d channels=1-1", "column 28: expected '->'"},
      {"conv_transpose3d strides=2", "column 18: unknown field 'strides': did you mean 'stride'?"},
      {"conv_transpose3d stride 2", "column 25: expected '=' (got '2')"},
      {"conv_transpose3d stride=", "column 25: expected a non-negative integer (got the end)"},
      {"conv_transpose3d stride=-1", "column 25: expected a non-negative integer (got '-')"},
      {"conv_transpose3d stride=2x", "column 27: expected a size after 'x'"},
      {"conv_transpose3d stride=2x2", "column 25: stride takes one size or 3 (got 2)"},
      {"conv_transpose3d stride=2x 2x2", "column 27: expected a size after 'x'"},
      {"conv_transpose3d stride=1x1x1x1", "column 31: at most three sizes"},
      {"conv_transpose3d stride=9999999999999999999", "column 25: integer too large"},
      {"conv_transpose3d stride=2 stride=2", "column 27: stride is given twice"},
      {"conv_transpose3d dtype=f8", "column 24: expected one of f32, f64, f16, bf16 (got 'f8')"},
      {"conv_transpose3d layout=nchw", "column 25: expected one of channels_first, channels_last (got 'nchw')"},
      {"conv_transpose3d precision=high", "expected one of ieee, tf32"},
      {"conv_transpose3d precision=1", "column 28: expected one of ieee, tf32 (got '1')"},
      {"conv_transpose2d channels=1->1 input=8,8 kernel=3", "column 39: expected 'x' between the sizes of input"},
      {"conv_transpose2d channels=1->1 input=8*8 kernel=3",
       "column 39: expected a field, or '|' before an op (got '*')"},
      {"conv_transpose2d channels=1->1 input=8 8 kernel=3",
       "column 40: expected a field, or '|' before an op (got '8')"},
  };
  for (const Bad& row : rows)
    EXPECT_NE(error_of(row.text).find(row.message), std::string::npos)
        << row.text << "\n  gave: " << error_of(row.text);
}

TEST(Text, MalformedChains) {
  const Bad rows[] = {
      {"", "column 4: expected a name (got the end)"},
      {"| relu", "expected a name (got '|')"},
      {"relu |", "column 10: expected a name (got the end)"},
      {"relu gelu", "column 9: expected '|' before the next op, or the end"},
      {"gelo", "column 4: unknown op 'gelo': did you mean 'gelu'?"},
      {"frobnicate", "unknown op 'frobnicate'"},
      {"relu(", "column 9: expected ')' (got the end)"},
      {"relu(1)", "column 9: relu takes no further argument here (it takes none)"},
      {"relu(x=1)", "column 9: relu has no parameter 'x' (it takes none)"},
      {"leaky_relu(slop=1)", "leaky_relu has no parameter 'slop': did you mean 'slope'?"},
      {"leaky_relu(slope)", "expected '=' and a value for leaky_relu's slope"},
      {"leaky_relu(abc)", "leaky_relu has no parameter 'abc' (it takes slope)"},
      {"leaky_relu(-x)", "expected a number (got '-')"},
      {"layer_norm(channel)", "layer_norm has no parameter 'channel': did you mean 'channels'?"},
      {"leaky_relu(1, 2)", "leaky_relu takes no further argument here"},
      {"leaky_relu(1, slope=2)", "leaky_relu is given its slope twice"},
      {"leaky_relu(1e999)", "number out of the range of a double"},
      {"leaky_relu(0.1", "expected ')' (got the end)"},
      {"max_pool", "max_pool needs its size"},
      {"max_pool(2x2x2x2)", "at most three sizes"},
      {"max_pool(ceil)", "max_pool needs its size"},
      {"max_pool(2, ceil=yes)", "expected true or false (got 'yes')"},
      {"layer_norm(channels, affine=1)", "expected true or false (got '1')"},
      {"add(channel, dtype=32)", "expected f32 or same (got '32')"},
      {"group_norm", "group_norm needs its groups"},
      {"add", "add needs its other"},
      {"keep", "keep needs its name"},
      {"keep(1)", "expected a name (got '1')"},
      {"keep(conv)", "'conv' cannot be a name: it has a meaning of its own"},
      {"keep(inf)", "'inf' cannot be a name: it has a meaning of its own"},
      {"keep(sixteen_letters_)", "a name has at most 15 characters (got 'sixteen_letters_')"},
      {"sum(axes=x)", "expected some of c, d, h, w, each once (got 'x')"},
      {"sum(axes=whw)", "expected some of c, d, h, w, each once (got 'whw')"},
      {"softmax(axes=1)", "expected some of c, d, h, w (got '1')"},
      {"add(channel, dtype=f64)", "an operand's dtype is f32, or same"},
      {"relu | \x01", "column 11: expected a name (got byte 0x01)"},
  };
  for (const Bad& row : rows) {
    std::string message;
    try {
      const std::string text = std::string("   ") + row.text;
      Scanner scanner("chain", text);
      parse_chain(scanner);
    } catch (const Error& error) {
      message = error.what();
    }
    EXPECT_NE(message.find(row.message), std::string::npos) << row.text << "\n  gave: " << message;
    EXPECT_EQ(message.rfind("chain: column ", 0), 0U) << message;
  }
}

TEST(Text, IllegalChains) {
  const Bad rows[] = {
      {"max_pool(0)", "max_pool.size: must be at least 1 on every axis (got 0)"},
      {"max_pool(2, stride=0)", "max_pool.stride: must be at least 1"},
      {"max_pool(2x2)", "max_pool.size: takes one size or 3, one per spatial axis (got 2)"},
      {"max_pool(2, padding=2)", "max_pool.padding: must be at most half the size on axis d (got padding 2, size 2)"},
      {"avg_pool(3x3x1, padding=1)",
       "avg_pool.padding: must be at most half the size on axis w (got padding 1, size 1)"},
      {"avg_pool(8)", "avg_pool.size: leaves an empty output on axis d (input 7, size 8, stride 8, padding 0)"},
      {"max_pool(4) | max_pool(2)", "max_pool.size: leaves an empty output on axis d (input 1, size 2"},
      {"group_norm(3)", "group_norm.groups: must divide the 4 channels (got 3)"},
      {"group_norm(0)", "group_norm.groups: must divide the 4 channels (got 0)"},
      {"sum | group_norm(2)", "group_norm.groups: must divide the 1 channels (got 2)"},
      {"add(0.5, dtype=f32)", "add: takes a dtype for channel and tensor only"},
      {"relu | max_pool(9)", "padding 0), in op 2 of the chain"},
      {"layer_norm", "layer_norm: takes either channels or trailing=K, and not both"},
      {"layer_norm(channels, trailing=1)", "layer_norm: takes either channels or trailing=K, and not both"},
      {"layer_norm(trailing=5)", "layer_norm.trailing: must be from 1 to 4, the axes but the batch (got 5)"},
      {"add(foo)", "add.other: must be a number, channel, tensor, conv, or a value that was kept before (got 'foo')"},
      {"add(a) | keep(a)", "add.other: must be a number, channel, tensor, conv, or a value that was kept before"},
      {"keep(a) | relu | keep(a)", "keep.name: 'a' is the name of another value, in op 3 of the chain"},
      {"keep(a) | max_pool(2) | mul(a)",
       "mul.other: a must have the running value's sizes, or 1 where they differ (got 1x4x7x7x7, and 1x4x3x3x3)"},
      {"rms_norm", "rms_norm: takes channels: it knows no other region"},
      {"celu(0)", "celu: takes an alpha that is not 0"},
      {"pow(inf)", "pow: takes an exponent that is finite"},
      {"sum | add(conv)",
       "add.other: conv needs a value of the convolution's own shape (got 1x1x7x7x7 where it is 1x4x7x7x7)"},
  };
  for (const Bad& row : rows)
    EXPECT_NE(error_of(head + " | " + row.text).find(row.message), std::string::npos)
        << row.text << "\n  gave: " << error_of(head + " | " + row.text);
}

}  // namespace
}  // namespace convt::core
