import type { Case } from "./case.ts";
import type { BenchOptions } from "./rounds.ts";

/** One of the benches that `npm run bench -- <name>` runs. */
export type Bench = {
  readonly name: string;
  readonly about: string;
  /** The names of its cases. */
  readonly cases: readonly string[];
  /** Runs it, and gives its section of results.md. What was started is stopped, however this ends. */
  run(options: BenchOptions, command: string): Promise<string>;
};

/** The cases that were asked for. */
export const chosenOf = <C extends Case>(all: readonly C[], { cases }: BenchOptions): C[] =>
  all.filter(({ name }) => cases?.includes(name) ?? true);
