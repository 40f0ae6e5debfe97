import { z } from "zod";
import type { Config } from "../config/config.ts";
import { pieces } from "../db/admission/pieces.ts";
import type { Identity } from "../db/transaction/identity.ts";
import type { HttpLimits } from "../gate/limits.ts";
import { parseJson, parseShape, readBytes } from "../gate/pipeline/body.ts";
import { contextOf, type Exchange, setHead } from "../gate/pipeline/exchange.ts";
import type { HttpEnvelope, HttpInterface } from "../gate/pipeline/pipeline.ts";
import { problem } from "../problems/problem.ts";
import { type Broadcast, faultOf } from "./broadcast.ts";
import { type ChannelAccess, PUBLIC } from "./channel-access.ts";
import { flag, NOT_STORED, PREFIX } from "./join.ts";
import { channelCode, isChannelProblem } from "./problem.ts";
import type { Topics } from "./topics.ts";

/** The form of errors of the interface that clients of channels use beside them. */
export type ErrorForm = HttpEnvelope & {
  /** Sends an error; `code` replaces that of a Problem. Returns whether it is internal. */
  sendError(exchange: Exchange, error: unknown, code: string | null): boolean;
};

export type BroadcastEndpointOptions = {
  readonly topics: Topics;
  readonly errors: ErrorForm;
  readonly needsKey: boolean;
  readonly limits: Pick<Config, "bodyLimit"> & Pick<HttpLimits, "wsMaxMessageBytes" | "jsonMaxDepth">;
  readonly access: Pick<ChannelAccess, "admit" | "rightsOn">;
  onInternalError(error: unknown, requestId: string): void;
};

/** A message to a topic. */
type Posted = { readonly name: string; readonly isPrivate: boolean; readonly broadcast: Broadcast };

const BASE = "/realtime/v1/api/broadcast";
/** `/realtime/v1/api/broadcast/room/events/cursor` */
const ONE = /^\/([^/]+)\/events\/([^/]+)$/;
/** Messages in one request. */
const MAX_MESSAGES = 1000;

const MESSAGE = z.object(
  {
    topic: z.string("must be a string"),
    event: z.string("must be a string"),
    payload: z.unknown().default({}),
    private: flag,
  },
  "must be an object with a topic and an event",
);

const POSTED = z.object(
  { messages: z.array(MESSAGE, "must be an array").max(MAX_MESSAGES, `must have at most ${MAX_MESSAGES} messages`) },
  "must be {messages: [...]}",
);

/**
 * Broadcasts over HTTP, to the channels of a topic:
 *
 *   POST /realtime/v1/api/broadcast {"messages": [{"topic", "event", "payload", "private"}]}
 *   POST /realtime/v1/api/broadcast/<topic>/events/<event>?private=true, with the payload as body
 * Responds with 202 when the channels of this process have it, and all other processes of the service will get it.
 */
export class BroadcastEndpoint implements HttpInterface {
  readonly reject: HttpEnvelope["reject"];
  readonly #options: BroadcastEndpointOptions;

  constructor(options: BroadcastEndpointOptions) {
    this.#options = options;
    this.reject = options.errors.reject;
  }

  async handle(exchange: Exchange): Promise<void> {
    const { request, response, head } = exchange;
    try {
      const caller = await exchange.identity.caller({ needsKey: this.#options.needsKey });
      if (request.method !== "POST") throw problem("POST only", { message: "the method must be POST" });
      const messages = await this.#read(exchange);
      const { countMore, identity } = exchange;
      if (messages.length > 1) countMore(identity.nameOf(caller), messages.length - 1);
      await this.#post(messages, { caller, request: contextOf(request, BASE) }, identity.network);
      setHead(response, head);
      response.writeHead(202, { "Content-Length": "0" }).end();
    } catch (error) {
      if (response.destroyed) return;
      const code = isChannelProblem(error) ? channelCode(error) : null;
      if (this.#options.errors.sendError(exchange, error, code)) this.#options.onInternalError(error, head.requestId);
    }
  }

  /** Nothing is sent unless all messages may be sent. */
  async #post(messages: readonly Posted[], { caller, request }: Identity, network: string): Promise<void> {
    const { access } = this.#options;
    await access.admit(caller, request);
    for (const { name, isPrivate } of messages) {
      const rights = isPrivate ? await access.rightsOn(name, caller, request) : PUBLIC;
      if (!rights.broadcast.write) throw problem("may not write topic", { topic: name });
    }
    const shared: (boolean | Promise<boolean>)[] = [];
    await pieces.each(network, messages, ({ name, isPrivate, broadcast }) => {
      shared.push(this.#options.topics.broadcast(`${PREFIX}${name}`, isPrivate, broadcast, network));
    });
    if ((await Promise.all(shared)).includes(false)) throw problem("not shared");
  }

  async #read({ request, identity }: Exchange): Promise<Posted[]> {
    const { pathname, searchParams } = new URL(request.url!, "http://localhost");
    const { bodyLimit, jsonMaxDepth } = this.#options.limits;
    const path = pathname.slice(BASE.length);
    const bytes = await readBytes(request, bodyLimit);
    if (path === "") return this.#readMessages(parseJson(bytes, jsonMaxDepth), identity.network);
    const [, name, event] = ONE.exec(path) ?? [];
    if (name === undefined) throw problem("nothing here");
    const isJson = !request.headers["content-type"]?.startsWith("application/octet-stream");
    const broadcast = { event: decoded(event!), body: { isJson, bytes } };
    if (/[?&]persist\b/.test(request.url!)) throw malformed(NOT_STORED);
    const isPrivate = parseShape(flag, searchParams.get("private"), "private", malformed);
    return [this.#checked({ name: decoded(name), isPrivate, broadcast })];
  }

  async #readMessages(body: unknown, network: string): Promise<Posted[]> {
    const { messages } = parseShape(POSTED, body, "the body", malformed);
    const posted: Posted[] = [];
    await pieces.each(network, messages, ({ topic: name, event, payload, private: isPrivate }) => {
      const bytes = Buffer.from(JSON.stringify(payload));
      posted.push(this.#checked({ name, isPrivate, broadcast: { event, body: { isJson: true, bytes } } }));
    });
    return posted;
  }

  #checked(posted: Posted): Posted {
    const { wsMaxMessageBytes, jsonMaxDepth } = this.#options.limits;
    const fault = faultOf(posted.broadcast, jsonMaxDepth);
    if (fault !== null) throw malformed(fault);
    if (posted.name === "") throw malformed("the topic must not be empty");
    if (Buffer.byteLength(posted.name) + PREFIX.length > 255) throw malformed("the topic is too long");
    if (posted.broadcast.body.bytes.length > wsMaxMessageBytes)
      throw problem("payload too large", { max: wsMaxMessageBytes });
    return posted;
  }
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    throw malformed("the URL is not valid");
  }
}

const malformed = (message: string) => problem("invalid request", { message });
