import { createHash } from "node:crypto";
import type { Holding } from "../db/admission/byte-budget.ts";
import type { Caller } from "../db/caller.ts";
import type { ChangeFeed } from "../db/changes/feed.ts";
import { comparePositions, type Start } from "../db/changes/position.ts";
import { isFeedGap } from "../db/changes/reader.ts";
import type { Delivery } from "../db/delivery/delivery.ts";
import type { Notifications } from "../db/follow/notifications.ts";
import { watchBytes } from "../db/rights/filter-size.ts";
import type { SocketCallers } from "../identity/socket-caller.ts";
import { problem } from "../problems/problem.ts";
import type { Binding, Bindings, ChangeWatch } from "./bindings.ts";
import { Channel } from "./channel.ts";
import { type ChannelAccess, type ChannelRights, PUBLIC } from "./channel-access.ts";
import { type JoinRequest, parseJoin } from "./join.ts";
import { badToken, channelReason, malformed, noReplay, notKept } from "./problem.ts";
import { Replay } from "./replay.ts";
import type { ChannelIdentity, Resumption } from "./resumption.ts";
import type { ChangeMessages, ClientMessage } from "./serializer.ts";
import type { ChannelSocket } from "./socket.ts";
import { Subscription } from "./subscription.ts";
import type { Topics } from "./topics.ts";

export type ChannelsOptions = {
  readonly feed: Pick<ChangeFeed, "textOf" | "startOf">;
  readonly delivery: Delivery<ChangeWatch, ChangeMessages>;
  readonly bindings: Bindings;
  readonly resumption: Resumption;
  readonly topics: Topics;
  readonly access: ChannelAccess;
  /** Of broadcasts from SQL. Null in a database without `realtime.send`. */
  readonly notifications: Pick<Notifications, "whenListening"> | null;
  readonly callers: SocketCallers;
  readonly anonymousRole: string;
};

/** Maximum number of bindings of a channel. */
const MAX_BINDINGS = 100;

/** What a channel takes beside its filters. Measured: 7,300 bytes. */
const CHANNEL_BYTES = 8192;

const WITHOUT_SEND = "this database has no function realtime.send, so there are no broadcasts from SQL";

/** The id of a broadcast in the set of a channel. */
const REPLAYED_BYTES = 100;

/** A join that is allowed. */
type Join = {
  readonly caller: Caller;
  readonly rights: ChannelRights;
  readonly request: JoinRequest;
  readonly replay: Replay | null;
};

/** Where the changes of a channel start. */
type ChannelStart = {
  readonly position: Start;
  readonly isResumed: boolean;
  /** Whether changes since the connection was lost are missing. */
  readonly isGap: boolean;
};

/** Opens channels. */
export class Channels {
  readonly #options: ChannelsOptions;
  readonly #identities = new WeakMap<Channel, ChannelIdentity>();

  constructor(options: ChannelsOptions) {
    this.#options = options;
  }

  /** Handles `phx_join`. Rejects with Problem. */
  async join(socket: ChannelSocket, message: ClientMessage): Promise<void> {
    const request = parseJoin(message.topic, message.payload, MAX_BINDINGS);
    const caller = await socket.callerOf(request.token);
    const rights = await this.#rightsOf(caller, request, socket);
    const replay = await this.#replay({ caller, rights, request, socket });
    try {
      await this.#open(socket, message, { caller, rights, request, replay });
    } finally {
      replay?.close();
    }
  }

  async #open(socket: ChannelSocket, message: ClientMessage, { caller, rights, request, replay }: Join): Promise<void> {
    const { bindings, topics, resumption } = this.#options;
    const numbered = bindings.number(request.bindings);
    const subscription = numbered.length === 0 ? null : this.#subscribe(socket, request);
    const watches = await this.#watches(subscription, numbered, caller);
    const identity = identityOf(socket, request, caller);
    const replaced = socket.channels.get(request.topic);
    const continued = replaced && this.#isSame(replaced, identity) ? replaced.subscription : null;
    if (subscription && !continued) await resumption.recall(identity);
    if (!socket.isOpen) return;

    // From here on, nothing is awaited: the reply precedes the first change.
    const replayed = replay?.ids();
    socket.channels.get(request.topic)?.replace();
    const size = new Set(numbered.map(({ id }) => id)).size;
    socket.joins.admitChannel(size);
    const joinRef = message.joinRef ?? message.ref ?? "";
    const lost = () => continued?.received ?? this.#lost(identity, Number(joinRef));
    const ofWatches = watches.reduce((sum, watch) => sum + watchBytes(watch), 0);
    const held = socket.hold(CHANNEL_BYTES + ofWatches + (replayed?.size ?? 0) * REPLAYED_BYTES);
    const begin = () => subscription && this.#begin(subscription, request, watches, lost());
    const begun = closingOnError(held, begin);
    const leave = socket.joins.openChannel(size);
    const topic = topics.open(request.topic, request.isPrivate);
    const channel = new Channel({
      ...{ socket, joinRef, request, rights, replayed, subscription, topic },
      textOf: (position) => this.#options.feed.textOf(position),
      authorize: (opened, token) => this.#authorize(opened, socket, token),
      keep: (opened) => this.#keep(opened, socket),
      onClosed: () => {
        if (socket.channels.get(request.topic) === channel) socket.channels.delete(request.topic);
        held.close();
        leave();
      },
    });
    if (subscription) subscription.listener = channel;
    this.#identify(channel, socket, caller, request.token);
    topic.add(channel);
    socket.channels.set(request.topic, channel);
    socket.reply(message, "ok", { postgres_changes: numbered.map(({ request: { sent }, id }) => ({ ...sent, id })) });
    replay?.send();
    this.#greet(channel, begun, caller);
  }

  /** The stored broadcasts, and those that arrive until it is closed; null for a join without replay. Rejects with Problem. */
  async #replay({ caller, rights, request, socket }: Omit<Join, "replay"> & { readonly socket: ChannelSocket }) {
    const { access, topics, notifications } = this.#options;
    if (request.replay === null) return null;
    if (!rights.broadcast.read) throw problem("may not read topic", { topic: request.name });
    // What is sent until the connection is back would be missing.
    if (notifications?.whenListening(() => {}) === false) throw noReplay();
    const replay = new Replay({ access, topics, socket, request, caller });
    try {
      await replay.read(request.replay);
      return replay;
    } catch (error) {
      replay.close();
      throw error;
    }
  }

  #subscribe(socket: ChannelSocket, { topic, options }: JoinRequest): Subscription {
    const { delivery, bindings } = this.#options;
    return new Subscription({ topic, socket, options, delivery, bindings });
  }

  /** The caller is checked when the credentials expire, or the rights of the user change. */
  #identify(channel: Channel, socket: ChannelSocket, caller: Caller, token: string | null): void {
    channel.caller?.close();
    channel.caller = this.#options.callers.open(caller, {
      resolve: () => socket.resolve(token),
      onEnded: (reason) => channel.fail("system", channelReason(badToken(reason))),
    });
    this.#identities.set(channel, identityOf(socket, channel.request, caller));
  }

  #keep(channel: Channel, socket: ChannelSocket): void {
    const { subscription } = channel;
    const identity = this.#identities.get(channel)!;
    if (subscription) this.#options.resumption.keep(identity, subscription.received, socket.lastRef);
  }

  async #rightsOf(caller: Caller, { isPrivate, name }: JoinRequest, socket: ChannelSocket): Promise<ChannelRights> {
    const { access } = this.#options;
    if (!isPrivate) {
      await access.admit(caller, socket.request);
      return PUBLIC;
    }
    const rights = await access.rightsOn(name, caller, socket.request);
    if (!rights.broadcast.read && !rights.presence.read) throw problem("may not read topic", { topic: name });
    return rights;
  }

  async #watches(subscription: Subscription | null, bindings: readonly Binding[], caller: Caller) {
    if (!subscription) return [];
    await this.#options.delivery.open();
    return this.#options.bindings.watches(bindings, caller, subscription);
  }

  /** Where a channel with this identity was when its connection was lost. */
  #lost(identity: ChannelIdentity, ref: number): Start | undefined {
    const { feed, resumption } = this.#options;
    const lost = resumption.take(identity, ref).map((text) => feed.startOf(text)!);
    return lost.sort(comparePositions)[0];
  }

  #isSame(channel: Channel, { client, channel: digest }: ChannelIdentity): boolean {
    const known = this.#identities.get(channel);
    return known?.client === client && known.channel === digest;
  }

  /** Begins at the position that the client sends or at which the connection was lost, whichever is later; without either, now. */
  #begin(
    subscription: Subscription,
    { options: { since } }: JoinRequest,
    watches: Awaited<ReturnType<Bindings["watches"]>>,
    lost: Start | undefined,
  ): ChannelStart {
    const { feed } = this.#options;
    const given = since === null ? null : feed.startOf(since);
    if (since !== null && given === null) throw malformed("postgres_changes_options.since is not a position");
    // The client sends `since` again with each join.
    const isLater = given !== null && lost !== undefined && comparePositions(lost, given) > 0;
    const start = given === null || isLater ? lost : given;
    try {
      return { position: subscription.start(watches, start), isResumed: start !== undefined, isGap: false };
    } catch (error) {
      if (!isFeedGap(error)) throw error;
      if (given !== null) throw notKept();
      return { position: subscription.start(watches), isResumed: false, isGap: true };
    }
  }

  /** What follows the reply. */
  #greet(channel: Channel, begun: ChannelStart | null, caller: Caller): void {
    const { topics, anonymousRole, feed } = this.#options;
    const { request, rights } = channel;
    if (channel.receivesPresence && rights.presence.read)
      topics.open(request.topic, request.isPrivate).sendPresences(channel);
    if (request.awaitsSql) this.#awaitSql(channel);
    if (!begun) return;
    if (begun.isGap) channel.sendGap(channelReason(notKept()));
    const position = feed.textOf(begun.position);
    channel.system("postgres_changes", "ok", "Subscribed to PostgreSQL", { position, resumed: begun.isResumed });
    for (const lost of channel.subscription?.losses ?? [])
      channel.system("postgres_changes", "ok", lost, { partial: true });
    if (request.token === null && caller.role === anonymousRole)
      channel.system("system", "ok", `the channel has no access token: it has the rights of the role ${anonymousRole}`);
  }

  /** Tells the client when broadcasts from SQL reach the channel. The message is Supabase's, for which clients wait. */
  #awaitSql(channel: Channel): void {
    const { notifications } = this.#options;
    const ready = () => channel.isOpen && channel.system("system", "ok", "Replication connection established");
    if (notifications === null) channel.system("system", "error", WITHOUT_SEND);
    else if (!notifications.whenListening(ready))
      channel.system("system", "error", "broadcasts from SQL do not arrive at the moment");
  }

  /** Changes are checked with the new claims from here on. */
  async #authorize(channel: Channel, socket: ChannelSocket, token: string): Promise<void> {
    const { request, subscription } = channel;
    const caller = await socket.callerOf(token);
    const rights = await this.#rightsOf(caller, request, socket);
    const bindings = this.#options.bindings.number(request.bindings);
    const watches = await this.#watches(subscription, bindings, caller);
    if (!channel.isOpen) return;
    channel.rights = rights;
    this.#identify(channel, socket, caller, token);
    subscription?.replace(watches);
  }
}

/** Without a `client_id`, clients with the same address and user agent are not distinguished. */
function identityOf(
  { exchange: { identity, request }, clientId, network }: ChannelSocket,
  { topic, isPrivate, bindings, options }: JoinRequest,
  { role, claims }: Caller,
): ChannelIdentity {
  const sent = bindings.map((binding) => binding.sent);
  const channel = JSON.stringify([identity.credentials.keys, role, claims.sub, topic, isPrivate, sent, options.leave]);
  const client = clientId === null ? `${network} ${request.headers["user-agent"]}` : `client ${clientId}`;
  const digest = createHash("sha256").update(channel).digest("base64");
  return { client, isExact: clientId !== null, channel: digest, network };
}

function closingOnError<T>(held: Holding, begin: () => T): T {
  try {
    return begin();
  } catch (error) {
    held.close();
    throw error;
  }
}
