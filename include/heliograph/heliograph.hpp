#pragma once

// The whole library.

#include "heliograph/array.hpp"
#include "heliograph/checkpoint.hpp"
#include "heliograph/dataset.hpp"
#include "heliograph/error.hpp"
#include "heliograph/generate.hpp"
#include "heliograph/io.hpp"
#include "heliograph/log.hpp"
#include "heliograph/model.hpp"
#include "heliograph/options.hpp"
#include "heliograph/partition.hpp"
#include "heliograph/shards.hpp"
#include "heliograph/split.hpp"
#include "heliograph/traffic.hpp"
#include "heliograph/train.hpp"
#include "heliograph/version.hpp"
