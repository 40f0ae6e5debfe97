/** One HTTP request; the path follows the address of a server's interface. */
export type HttpRequest = {
  readonly method: "GET" | "POST";
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string | null;
  /** Sent to be in the way of the others: how long it takes itself does not count. */
  readonly isBackground?: boolean;
};

/** One kind of request that is measured. */
export type Case = {
  readonly name: string;
  readonly about: string;
  readonly writes: boolean;
  /** Fields of the answer that each server gives a value of its own: `["id"]`. */
  readonly ownFields: readonly string[];
  /** Texts that a good answer does not hold: `['"errors"']`. */
  readonly refused: readonly string[];
  /** What is sent in turn, with tokens that are good for an hour. */
  requests(): HttpRequest[];
};
