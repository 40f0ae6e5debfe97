/** Where the time of one request went, for the header Server-Timing. */
export class Stopwatch {
  #last = performance.now();
  #text = "";

  /** Ends the part that is called so. */
  mark(name: string): void {
    const now = performance.now();
    if (this.#text !== "") this.#text += ", ";
    this.#text += `${name};dur=${(now - this.#last).toFixed(2)}`;
    this.#last = now;
  }

  /** `parse;dur=0.02, plan;dur=0.01, wait;dur=0.05, query;dur=0.61, answer;dur=0.01` (milliseconds) */
  get text(): string {
    return this.#text;
  }
}
