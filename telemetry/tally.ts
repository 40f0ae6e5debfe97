import type { Sample } from "./metrics.ts";

/** Counts by a text that may come from clients: from `max` different texts on, further ones count as "other". */
export class Tally {
  readonly #label: string;
  readonly #max: number;
  readonly #counts = new Map<string, number>();

  constructor(label: string, max: number) {
    this.#label = label;
    this.#max = max;
  }

  add(text: string): void {
    const counted = this.#counts.has(text) || this.#counts.size < this.#max ? text : OTHER;
    this.#counts.set(counted, (this.#counts.get(counted) ?? 0) + 1);
  }

  get samples(): readonly Sample[] {
    return [...this.#counts].map(([text, value]) => ({ labels: { [this.#label]: text }, value }));
  }
}

/** The label of what is not counted by itself. */
export const OTHER = "other";
