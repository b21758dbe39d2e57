#pragma once

#include <optional>
#include <string_view>

#include "heliograph/dataset.hpp"

namespace heliograph {

/// How files and messages spell a task.
constexpr const char* task_name(Task task) {
  if (task == Task::regression) return "regression";
  return task == Task::multilabel ? "multilabel" : "multiclass";
}

/// The task of this name; nothing if there is none.
inline std::optional<Task> find_task(std::string_view name) {
  for (const Task task : {Task::multiclass, Task::multilabel, Task::regression}) {
    if (name == task_name(task)) return task;
  }
  return std::nullopt;
}

/// What a node has, for messages.
constexpr const char* label_text(Task task) {
  if (task == Task::regression) return "one number a node";
  return task == Task::multilabel ? "several labels a node" : "one class a node";
}

}  // namespace heliograph
