import type { Ledger, Run } from "./ledger.ts";
import type { Step } from "./performer.ts";

const MILLISECONDS = 1000;

/** Looks after a run while it goes on: notes how far it is, and says when it is to end because the task was cancelled. */
export class Watch {
  readonly #ledger: Ledger;
  readonly #run: Run;
  readonly #steps: readonly Step[];
  readonly #onCancelled: () => void;
  readonly #total: number;
  readonly #timer: NodeJS.Timeout;
  #done = 0;
  #looking: Promise<void> | null = null;

  constructor(ledger: Ledger, run: Run, steps: readonly Step[], onCancelled: () => void) {
    this.#ledger = ledger;
    this.#run = run;
    this.#steps = steps;
    this.#onCancelled = onCancelled;
    this.#total = steps.reduce((sum, { rows }) => sum + rows, 0);
    this.#timer = setInterval(() => this.#look(), MILLISECONDS);
    if (this.#total > 0) this.#look();
  }

  /** A step is done, as far as it can be before all are. */
  completed(index: number): void {
    this.#done += this.#steps[index]?.rows ?? 0;
  }

  async end(): Promise<void> {
    clearInterval(this.#timer);
    await this.#looking;
  }

  #look(): void {
    this.#looking ??= this.#ledger
      .advance(this.#run, this.#done, this.#total || null)
      .then(
        (goesOn) => {
          if (!goesOn) this.#onCancelled();
        },
        // The connection is lost: the work will notice too, if it matters.
        () => {},
      )
      .finally(() => {
        this.#looking = null;
      });
  }
}
