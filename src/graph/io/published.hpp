#pragma once

#include "heliograph/io.hpp"

namespace heliograph {

/// If a data set of this form was published with as many nodes, logs whether it was published with
/// as many edges too.
void compare_with_published(InputFormat format, const ImportCounts& counts,
                            const ImportOptions& options);

}  // namespace heliograph
