import { z } from "zod";
import { type Broadcast, faultOf } from "./broadcast.ts";
import { isShort, PREFIX } from "./join.ts";
import { MAX_META_BYTES, type PresenceChange } from "./presence.ts";
import { isObject } from "./serializer.ts";

/** What happens in a topic, for the other processes of the service. `bytes` is base64. */
export type TopicEvent =
  | { readonly kind: "broadcast"; readonly event: string; readonly isJson: boolean; readonly bytes: string }
  | { readonly kind: "presence"; readonly change: PresenceChange };

/** What a process tells the others. All its presences follow "telling", and "told" ends them: there are no others. */
export type TopicMessage =
  | (TopicEvent & { readonly name: string; readonly isPrivate: boolean })
  | { readonly kind: "telling" }
  | { readonly kind: "told" };

export type MessageLimits = { readonly wsMaxMessageBytes: number; readonly jsonMaxDepth: number };

const short = z.string().refine(isShort);
const TOPIC = { name: short.refine((name) => name.startsWith(PREFIX)), isPrivate: z.boolean() };
/** A reference of a process to one of its presences. */
const REF = z.string().max(40);

const MESSAGE: z.ZodType<TopicMessage> = z.discriminatedUnion("kind", [
  z.object({ kind: z.literal("broadcast"), ...TOPIC, event: z.string(), isJson: z.boolean(), bytes: z.string() }),
  z.object({
    kind: z.literal("presence"),
    ...TOPIC,
    change: z.object({
      id: REF,
      key: short,
      network: z.string().max(64),
      meta: z.object({ ref: REF, json: z.string() }).nullable(),
    }),
  }),
  z.object({ kind: z.literal("telling") }),
  z.object({ kind: z.literal("told") }),
]);

/** Null if it has another form: what comes from Valkey or Redis may come from anybody who can write there. */
export function parseTopicMessage(value: unknown): TopicMessage | null {
  return MESSAGE.safeParse(value).data ?? null;
}

/** What a client of another process may not send either is null. */
export function broadcastOf(event: TopicEvent & { kind: "broadcast" }, limits: MessageLimits): Broadcast | null {
  const bytes = Buffer.from(event.bytes, "base64");
  const broadcast: Broadcast = { event: event.event, body: { isJson: event.isJson, bytes } };
  if (bytes.length > limits.wsMaxMessageBytes || faultOf(broadcast, limits.jsonMaxDepth) !== null) return null;
  return broadcast;
}

export const eventOf = ({
  event,
  body: { isJson, bytes },
}: Broadcast): TopicEvent & { readonly kind: "broadcast" } => ({
  kind: "broadcast",
  event,
  isJson,
  bytes: bytes.toString("base64"),
});

/** Whether the JSON of a presence may be a part of messages to members. */
export function isMeta({ ref, json }: { readonly ref: string; readonly json: string }): boolean {
  if (Buffer.byteLength(json) > MAX_META_BYTES) return false;
  try {
    const meta: unknown = JSON.parse(json);
    return isObject(meta) && meta.phx_ref === ref;
  } catch {
    return false;
  }
}
