#include "layers/composition.hpp"

#include <gtest/gtest.h>

#include "heliograph/error.hpp"

namespace heliograph {
namespace {

/// A step that declares what the test says and computes nothing.
class Declared final : public Step {
 public:
  template <class Body>
  Declared(Declare& declare, Body body) {
    body(declare);
  }
  void forward(const Pass&, RowRange) override {}
  void backward(const Pass&) override {}
};

TEST(Composition, SitesHaveTheKeysOfTheirLayerAndCountFromThere) {
  Composition model(false, false);
  const ValueId x = model.add_input(8);
  const auto exchange = [](ValueId from) {
    return [from](Declare& d) {
      d.reads(from, false);
      d.site(Direction::forward, 8, false);
      d.site(Direction::backward, 8, false);
      d.writes(8, false);
    };
  };
  const ValueId y = model.add<Declared>("layers.0", 0, exchange(x));
  const ValueId z = model.add<Declared>("layers.0.again", 0, exchange(y));
  model.add<Declared>("layers.1", 1, exchange(z));
  ASSERT_EQ(model.sites().size(), 6U);
  EXPECT_EQ(model.sites()[0].key, site_key(0, Direction::forward));
  EXPECT_EQ(model.sites()[5].key, site_key(1, Direction::backward));
  EXPECT_EQ(model.sites()[2].name, "layers.0.again.forward");
  for (std::size_t i = 0; i < 6; ++i) {
    EXPECT_EQ(model.sites()[i].id, static_cast<int>(i));
    for (std::size_t j = 0; j < i; ++j) {
      EXPECT_NE(model.sites()[i].key, model.sites()[j].key);
      EXPECT_NE(model.sites()[i].name, model.sites()[j].name);
    }
  }
}

TEST(Composition, GradientsFollowParameters) {
  Composition model(false, false);
  const ValueId x = model.add_input(8);
  const ValueId before = model.add<Declared>("drop", 0, [&](Declare& d) {
    d.reads(x, false);
    d.writes(8, false);
  });
  const ValueId learned = model.add<Declared>("learn", 0, [&](Declare& d) {
    d.reads(before, true);
    d.parameter("weight", 8, 4, ParameterKind::weight);
    d.writes(4, false);
  });
  const ValueId behind = model.add<Declared>("behind", 0, [&](Declare& d) {
    d.reads(learned, false);
    d.writes(4, false);
  });
  EXPECT_FALSE(model.value(before).has_gradient);
  EXPECT_TRUE(model.value(before).saved);
  EXPECT_TRUE(model.value(learned).has_gradient);
  EXPECT_TRUE(model.value(behind).has_gradient);
  EXPECT_EQ(model.parameters().name(0), "learn.weight");
  EXPECT_EQ(model.output(1), learned);
}

TEST(Composition, RefusesWhatWouldGoWrongSilently) {
  const auto refuses = [](auto body) {
    Composition model(false, false);
    const ValueId x = model.add_input(8);
    const ValueId y = model.add<Declared>("one", 0, [&](Declare& d) {
      d.reads(x, false);
      d.parameter("weight", 8, 8, ParameterKind::weight);
      d.site(Direction::forward, 8, false);
      d.writes(8, false);
    });
    EXPECT_THROW(model.add<Declared>("one", 0, [&](Declare& d) { body(d, x, y); }), Error);
  };
  refuses([](Declare& d, ValueId x, ValueId) {  // The first step has a part in its gradient.
    d.reads(x, false);
    d.writes(8, false);
    d.overwrites_gradient(x);
  });
  refuses([](Declare& d, ValueId, ValueId y) {
    d.reads(y, false);
    d.reads(y, true);
    d.writes(8, false);
  });
  refuses([](Declare& d, ValueId, ValueId y) { d.reads(y, false); });
  refuses([](Declare& d, ValueId, ValueId) {
    d.writes(8, false);
    d.writes(8, false);
  });
  refuses([](Declare& d, ValueId, ValueId) { d.site(Direction::forward, 8, false); });
  refuses([](Declare& d, ValueId, ValueId) { d.site(Direction::backward, 8, false, 0, 3); });
  refuses([](Declare& d, ValueId, ValueId) { d.parameter("weight", 1, 1, ParameterKind::gain); });
}

}  // namespace
}  // namespace heliograph
