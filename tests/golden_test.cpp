// Golden files: what is recorded is found again, and whatever does not fit the file is an error: a
// bit, a name, a case that it lacks, a line that cannot be read.
#include <algorithm>

#include "tests/support/twinops_command.hpp"

namespace twinops::test {
namespace {

// Operators of few and small cases, so that a run takes little.
const std::string kCases = "crosscheck --op philox_words,uniform --row cpu --threads 1 ";
const std::string kSmall = kCases + "--max-elements 300 ";

class Golden : public testing::Test {
 protected:
  void SetUp() override {
    const Printed printed = run_program(command() + kSmall + "--record '" + file_.path + "'");
    ASSERT_EQ(printed.status, 0) << printed.text;
    recorded_ = file_.text();
  }
  Printed compare(const std::string& how = kSmall) const {
    return run_program(command() + how + "--json '" + json_.path + "' --golden '" + file_.path +
                       "'");
  }
  // Where the first digest of an operator stands in the file.
  std::size_t digest_of(const std::string& op) const {
    const std::size_t at = recorded_.find("digest " + op + " ");
    EXPECT_NE(at, std::string::npos);
    return at;
  }
  std::size_t end_of_line(std::size_t at) const { return recorded_.find('\n', at); }

  const TemporaryFile file_{".golden"};
  const Json json_;
  std::string recorded_;
};

TEST_F(Golden, WhatWasRecordedIsFoundAgain) {
  const Printed printed = compare();
  EXPECT_EQ(printed.status, 0) << printed.text;
  EXPECT_TRUE(contains(printed.text, " 0 cases not recorded\n")) << printed.text;
  EXPECT_FALSE(contains(printed.text, ": 0 digests compared")) << printed.text;
  EXPECT_EQ(json_.number("failed"), 0);
  EXPECT_EQ(json_.number("stale_digests"), 0);
}

TEST_F(Golden, OneDigitOfADigest) {
  std::string text = recorded_;
  char& digit = text[text.find("uint32 ", digest_of("philox_words")) + 7 + 15];
  digit = digit == '0' ? '1' : '0';
  file_.write(text);
  const Printed printed = compare();
  EXPECT_EQ(printed.status, 1) << printed.text;
  EXPECT_TRUE(contains(printed.text, ": digest 0x")) << printed.text;
  EXPECT_TRUE(contains(last_line(printed.text), " passed, 1 failed")) << printed.text;
  EXPECT_EQ(json_.number("failed"), 1);
}

// A case that was given another name would else be compared with nothing.
TEST_F(Golden, AnotherNameOfACase) {
  std::string text = recorded_;
  text.insert(end_of_line(digest_of("uniform")), " of old");
  file_.write(text);
  const Printed printed = compare();
  EXPECT_EQ(printed.status, 1) << printed.text;
  EXPECT_TRUE(contains(printed.text, ": no digest of it in " + file_.path)) << printed.text;
  EXPECT_TRUE(contains(printed.text, " 1 cases not recorded, 1 recorded digests belong to no case"))
      << printed.text;
  EXPECT_TRUE(contains(last_line(printed.text), " passed, 2 failed")) << printed.text;
  EXPECT_EQ(json_.number("failed"), 2);
  EXPECT_EQ(json_.number("stale_digests"), 1);
}

// Also where the case would not have been chosen.
TEST_F(Golden, ADigestOfNoCaseAtAll) {
  std::string text = recorded_;
  text.insert(end_of_line(digest_of("uniform")), " of old");
  file_.write(text);
  const Printed printed = compare("crosscheck --op philox_words --row cpu --max-elements 5 ");
  EXPECT_EQ(printed.status, 1) << printed.text;
  EXPECT_TRUE(contains(last_line(printed.text), " passed, 1 failed")) << printed.text;
}

TEST_F(Golden, ACaseThatItLacks) {
  std::string text = recorded_;
  const std::size_t at = digest_of("uniform");
  text.erase(at, end_of_line(at) + 1 - at);
  file_.write(text);
  const Printed printed = compare();
  EXPECT_EQ(printed.status, 1) << printed.text;
  EXPECT_TRUE(contains(printed.text, ": no digest of it in ")) << printed.text;
}

// What the file was not made for is no mistake: larger cases, other operators.
TEST_F(Golden, IsNotAskedForMoreThanItHolds) {
  const Printed larger = compare(kCases + "--max-elements 700 ");
  EXPECT_EQ(larger.status, 0) << larger.text;
  EXPECT_FALSE(contains(larger.text, " 0 cases not recorded")) << larger.text;
  const Printed others = compare("crosscheck --op uniform,dropout --row cpu --max-elements 5 ");
  EXPECT_EQ(others.status, 0) << others.text;
  const Printed nothing = compare("crosscheck --op dropout --row cpu --max-elements 5 ");
  EXPECT_EQ(nothing.status, 1) << nothing.text;
  EXPECT_TRUE(contains(nothing.text, ": 0 digests compared")) << nothing.text;
}

TEST_F(Golden, ThatCannotBeReadIsAMistake) {
  const auto expect_refused = [&](const std::string& text, const std::string& message) {
    file_.write(text);
    const Printed printed = compare();
    EXPECT_EQ(printed.status, 2) << text << printed.text;
    EXPECT_TRUE(contains(printed.text, "twinops: " + file_.path + message)) << printed.text;
    EXPECT_FALSE(json_.is_there()) << "an empty file is left";
  };
  expect_refused("", ": holds no digests");
  expect_refused("seed 1\n", ": holds no digests");
  expect_refused("seed one\n" + recorded_, ", line 1: cannot read 'seed one'");
  expect_refused("\ndigest uniform float32\n" + recorded_, ", line 2: cannot read 'digest ");
  expect_refused("digest uniform float32 number 8\n", ", line 1: cannot read 'digest ");
  expect_refused("max_elements few\n", ", line 1: cannot read 'max_elements few'");
  expect_refused("seeds 1\n" + recorded_, ", line 1: cannot read 'seeds 1'");
  const std::size_t at = digest_of("uniform");
  const auto lines = std::count(recorded_.begin(), recorded_.end(), '\n');
  expect_refused(recorded_ + recorded_.substr(at, end_of_line(at) - at),
                 ", line " + std::to_string(lines + 1) + ": cannot read 'digest ");
}

TEST_F(Golden, ThatIsNotThereOrOfAnotherSeedIsAMistake) {
  const Printed seed = compare(kSmall + "--seed 2 ");
  EXPECT_EQ(seed.status, 2) << seed.text;
  EXPECT_TRUE(contains(seed.text, "--seed: " + file_.path + " was recorded with seed 1"))
      << seed.text;
  std::remove(file_.path.c_str());
  const Printed missing = compare();
  EXPECT_EQ(missing.status, 2) << missing.text;
  EXPECT_TRUE(contains(missing.text, "twinops: cannot read " + file_.path)) << missing.text;
  EXPECT_FALSE(json_.is_there()) << "an empty file is left";
}

TEST(Record, IsNotWrittenWhereARowFails) {
  const TemporaryFile file(".golden");
  const Printed printed = run_program(
      "TWINOPS_CROSSCHECK_FAULT=cpu/scalar " + command() +
      "crosscheck --op uniform --row cpu/scalar --max-elements 300 --record '" + file.path + "'");
  EXPECT_EQ(printed.status, 1) << printed.text;
  EXPECT_TRUE(contains(printed.text, file.path + " was not written")) << printed.text;
  EXPECT_FALSE(file.is_there());
}

}  // namespace
}  // namespace twinops::test
