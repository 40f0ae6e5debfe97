import type { Advice, Finding } from "./finding.ts";

/** An interface that notices mistakes in the database. */
export type FindingSource = {
  read(): readonly Finding[];
  /** Whether the source writes them to the log itself. */
  readonly isLogged: boolean;
};

/** What is wrong in the database, for those who can change it: as the interfaces notice it, and as a check of the whole has found it. */
export class Findings {
  readonly #sources: readonly FindingSource[];
  readonly #listeners: (() => void)[] = [];
  /** What the last check has found, together with what the sources have; null before the first check, and where nothing checks. */
  advice: Advice | null = null;

  constructor(sources: readonly FindingSource[]) {
    this.#sources = sources;
  }

  /** What the sources have. */
  noticed(isLogged: boolean): readonly Finding[] {
    return this.#sources.filter((source) => source.isLogged === isLogged).flatMap((source) => source.read());
  }

  /** A source may have found something else than before. */
  changed(): void {
    for (const listener of this.#listeners) listener();
  }

  onChange(listener: () => void): void {
    this.#listeners.push(listener);
  }
}
