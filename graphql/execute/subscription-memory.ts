import type { DocumentNode, ExecutionResult } from "postgraphile/graphql";
import type { ByteBudget, Holding, Recipient } from "../../db/admission/byte-budget.ts";
import { problem } from "../../problems/problem.ts";
import { asGraphQLError } from "./errors.ts";
import type { Operation } from "./operation.ts";
import { SubscriptionEvents } from "./subscription-events.ts";

/** What a running subscription takes beside its document. Measured: 18,500 bytes. */
const SUBSCRIPTION_BYTES = 20_000;
/** A document and its plan. Measured: 170 kB for 5 fields, 320 kB for 12, 1.8 MB for 180 with objects; plain fields take less. */
const DOCUMENT_BYTES = 150_000;
const BYTES_PER_FIELD = 10_000;
/** For each character of the variables as JSON. */
const BYTES_PER_VARIABLE_CHARACTER = 8;

/** A document that subscriptions of a network use. */
type InUse = { readonly holding: Holding; subscriptions: number };

type Opened = { readonly own: Holding; close(): void };

/** The memory of running subscriptions. Those of a network with the same document share it. */
export class SubscriptionMemory {
  readonly #budget: ByteBudget;
  readonly #documents = new WeakMap<DocumentNode, Map<string, InUse>>();

  constructor(budget: ByteBudget) {
    this.#budget = budget;
  }

  /** Starts a subscription, if its network may hold it, and counts it until it ends. It may add what its filter takes. */
  async counted(
    operation: Operation,
    recipient: Recipient,
    start: (holding: Holding) => Promise<ExecutionResult | SubscriptionEvents>,
  ): Promise<ExecutionResult | SubscriptionEvents> {
    const opened = this.#open(operation, recipient);
    if (opened === null) return { errors: [asGraphQLError(problem("subscriptions too large"))] };
    const { close, own } = opened;
    try {
      const started = await start(own);
      if (started instanceof SubscriptionEvents) started.onEnd = close;
      else close();
      return started;
    } catch (error) {
      close();
      throw error;
    }
  }

  /** `close` must be called when the subscription ends. Null if its network may not hold it. */
  #open({ document, fields, variables }: Operation, { network, holder }: Recipient): Opened | null {
    const values = variables === undefined ? 0 : JSON.stringify(variables).length * BYTES_PER_VARIABLE_CHARACTER;
    const own = this.#budget.reserve(network, "subscriptions", SUBSCRIPTION_BYTES + values, holder);
    if (own === null) return null;
    const close = this.#use(document, fields, network);
    if (close === null) own.close();
    return (
      close && {
        own,
        close: () => {
          own.close();
          close();
        },
      }
    );
  }

  #use(document: DocumentNode, fields: number, network: string): (() => void) | null {
    const networks = this.#documents.get(document) ?? new Map<string, InUse>();
    this.#documents.set(document, networks);
    let inUse = networks.get(network);
    if (inUse === undefined) {
      const holding = this.#budget.reserve(network, "subscriptions", DOCUMENT_BYTES + fields * BYTES_PER_FIELD);
      if (holding === null) return null;
      inUse = { holding, subscriptions: 0 };
      networks.set(network, inUse);
    }
    const used = inUse;
    used.subscriptions++;
    let isOpen = true;
    return () => {
      if (!isOpen) return;
      isOpen = false;
      if (--used.subscriptions > 0) return;
      used.holding.close();
      networks.delete(network);
    };
  }
}
