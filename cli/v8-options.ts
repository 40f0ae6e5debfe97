/** How V8 manages the memory of the service: see docs/decisions. */
export const V8_OPTIONS = [
  "--v8-pool-size=0",
  "--max-semi-space-size=16",
  "--initial-heap-size=128",
  "--heap-growing-percent=40",
  "--no-memory-reducer-favors-memory",
];
