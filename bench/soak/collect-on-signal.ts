/** Preloaded into the service (`--import`, with `--expose-gc`), so that a bench can measure what remains after a collection of garbage. */
process.on("SIGWINCH", () => globalThis.gc!());
