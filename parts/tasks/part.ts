import type { Part } from "../../service/part.ts";
import { createTasks } from "./tasks.ts";

export const tasks: Part = {
  name: "tasks",
  about: "requests that clients do not wait for, at /tasks, the tasks of the application, and what sends e-mails",
  tasks: createTasks,
};
