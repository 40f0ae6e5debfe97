import { createClient } from "@supabase/supabase-js";
import { expect, onTestFinished } from "vitest";
import { connect, type Subscription } from "../support/graphql-client.ts";
import { type Observed, observe } from "../support/realtime.ts";
import type { RunningApplication } from "./application.ts";
import type { Shape } from "./shapes.ts";

/** Changes of a table that a caller may see, made by the owner of the database. */
export type Changes = {
  readonly table: string;
  readonly as: string;
  readonly sql: readonly [insert: string, update: string, remove: string];
  /** A part of the reason for each operation whose subscription is refused: on a channel, and in GraphQL if it is another. */
  readonly refused?: Readonly<Partial<Record<Operation, readonly [channel: string, graphql?: string]>>>;
};

export type Operation = "INSERT" | "UPDATE" | "DELETE";
const WITHOUT_KEY = ["fail while it is published", "Cannot query field"] as const;
/** A table without a key cannot be published, and has no subscriptions in GraphQL. */
export const KEYLESS = { INSERT: WITHOUT_KEY, UPDATE: WITHOUT_KEY, DELETE: WITHOUT_KEY };

const VERBS = { INSERT: "Created", UPDATE: "Updated", DELETE: "Deleted" } as const;
export const OPERATIONS = Object.keys(VERBS) as Operation[];

/** What became of one operation, on a channel of supabase-js and in a GraphQL subscription: `delivered`, or why not. */
type Outcome = readonly [channel: string, subscription: string];

/** The outcome of an operation, after it was made. A subscriber reads the row that was created, so it must still exist. */
export type Watched = { outcome(operation: Operation): Promise<Outcome> };

/** Subscribes to each operation on the table, with the anon key of the application and the claims, and waits until each subscription is acknowledged or refused. */
export async function subscribe(
  running: RunningApplication,
  shape: Shape,
  claims: object | undefined,
  anonKey: string,
): Promise<Watched> {
  const token = claims && running.token(claims);
  const supabase = createClient(running.url, anonKey, {
    auth: { persistSession: false },
    ...(token !== undefined && { accessToken: async () => token }),
  });
  onTestFinished(() => void supabase.realtime.disconnect());
  await supabase.realtime.setAuth();
  const socket = connect(running, { params: token === undefined ? {} : { Authorization: `Bearer ${token}` } });
  const watched = OPERATIONS.map(async (event) => {
    const channel = observe(supabase, `${shape.name} ${event}`, [{ event, schema: shape.schema, table: shape.name }]);
    await expect.poll(() => channel.states.length).toBeGreaterThan(0);
    return {
      event,
      channel,
      document: `subscription { ${fieldOf(shape, event)} { ${shape.key.map(({ field }) => field).join(" ")} } }`,
    };
  });
  const all: { event: Operation; channel: Observed; subscription: Subscription | readonly { message: string }[] }[] =
    [];
  for (const { event, channel, document } of await Promise.all(watched)) {
    const subscription = await socket.subscribe(document).catch(({ errors }) => errors as { message: string }[]);
    all.push({ event, channel, subscription });
  }
  return {
    async outcome(operation) {
      const { channel, subscription } = all.find(({ event }) => event === operation)!;
      let onChannel = channel.states[0]!;
      if (onChannel === "SUBSCRIBED") {
        await expect
          .poll(() => channel.changes.length, { message: `${operation} of ${shape.name}` })
          .toBeGreaterThan(0);
        onChannel = channel.changes.every(({ eventType }) => eventType === operation)
          ? "delivered"
          : "another operation";
      }
      if (!("events" in subscription)) return [onChannel, subscription.map(({ message }) => message).join()];
      const received = () => subscription.events.length + (subscription.error ? 1 : 0);
      await expect.poll(received, { message: fieldOf(shape, operation) }).toBeGreaterThan(0);
      const faults = JSON.stringify(subscription.error ?? subscription.faults);
      return [onChannel, faults === "[]" ? "delivered" : faults];
    },
  };
}

const fieldOf = ({ type }: Shape, event: Operation) => `on${type}${VERBS[event]}`;
