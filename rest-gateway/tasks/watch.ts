import type { Step } from "./task-handler.ts";
import type { Ledger, Run } from "./task-repository.ts";

const MILLISECONDS = 1000;

/** Looks after a run while it goes on: notes how far it is, and says when it is to end because the task was cancelled. */
export class Watch {
  readonly #ledger: Ledger;
  readonly #run: Run;
  readonly #onCancelled: () => void;
  readonly #timer: NodeJS.Timeout;
  #steps: readonly Step[] = [];
  #total = 0;
  #done = 0;
  #looking: Promise<void> | null = null;

  constructor(ledger: Ledger, run: Run, onCancelled: () => void) {
    this.#ledger = ledger;
    this.#run = run;
    this.#onCancelled = onCancelled;
    this.#timer = setInterval(() => this.#look(), MILLISECONDS);
  }

  /** The work is about to begin. How much there is to do is noted before: it may be over by the next look. */
  async begin(steps: readonly Step[]): Promise<void> {
    this.#steps = steps;
    this.#total = steps.reduce((sum, { rows }) => sum + rows, 0);
    // One that is under way has another total.
    await this.#looking;
    if (this.#total > 0) await this.#look();
  }

  /** A step is done, as far as it can be before all are. */
  completed(index: number): void {
    this.#done += this.#steps[index]?.rows ?? 0;
  }

  async end(): Promise<void> {
    clearInterval(this.#timer);
    await this.#looking;
  }

  #look(): Promise<void> {
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
    return this.#looking;
  }
}
