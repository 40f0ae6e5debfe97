import type { Step } from "./task-handler.ts";
import type { Attempt, TaskRepository } from "./task-repository.ts";

const INTERVAL_MILLISECONDS = 1000;

/** Once a second during an attempt: saves its progress, and detects that the task was cancelled. */
export class AttemptMonitor {
  readonly #repository: TaskRepository;
  readonly #attempt: Attempt;
  readonly #onCancelled: () => void;
  readonly #timer: NodeJS.Timeout;
  #steps: readonly Step[] = [];
  #total = 0;
  #done = 0;
  #saving: Promise<void> | null = null;

  constructor(repository: TaskRepository, attempt: Attempt, onCancelled: () => void) {
    this.#repository = repository;
    this.#attempt = attempt;
    this.#onCancelled = onCancelled;
    this.#timer = setInterval(() => this.#save(), INTERVAL_MILLISECONDS);
  }

  /** Call this before the first step. Saves the total at once, since the work may take less than a second. */
  async begin(steps: readonly Step[]): Promise<void> {
    this.#steps = steps;
    this.#total = steps.reduce((sum, { rows }) => sum + rows, 0);
    // A save that has already started does not know the total.
    await this.#saving;
    if (this.#total > 0) await this.#save();
  }

  completed(index: number): void {
    this.#done += this.#steps[index]?.rows ?? 0;
  }

  async end(): Promise<void> {
    clearInterval(this.#timer);
    await this.#saving;
  }

  #save(): Promise<void> {
    this.#saving ??= this.#repository
      .advance(this.#attempt, this.#done, this.#total || null)
      .then(
        (continues) => {
          if (!continues) this.#onCancelled();
        },
        // The connection is lost. If that matters, the work fails too.
        () => {},
      )
      .finally(() => {
        this.#saving = null;
      });
    return this.#saving;
  }
}
