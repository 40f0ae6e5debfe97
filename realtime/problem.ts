/**
 * Why a join, or a message on a channel, is refused. The code is the first word of the reason; the codes are Supabase's where it has
 * one. The client shows the reason in the callback of `subscribe`.
 */
export const REASON_CODES = [
  "Unauthorized",
  "InvalidJWTToken",
  "TopicNameRequired",
  "MalformedJoin",
  "RealtimeDisabledForConfiguration",
  "ChannelRateLimitReached",
  "ClientJoinRateLimitReached",
  "ClientPresenceRateLimitReached",
  "PresenceTooLarge",
  "PresenceLimitReached",
  "RATE_LIMITED",
  "ChangesUnavailable",
  "Gap",
  "InternalError",
] as const;

export type ReasonCode = (typeof REASON_CODES)[number];

/** A refusal of a message of a channel. */
export class ChannelError extends Error {
  readonly code: ReasonCode;

  constructor(code: ReasonCode, message: string) {
    super(message);
    this.code = code;
  }

  /** `"Unauthorized: You do not have permissions to read from this Channel topic: x"` */
  get reason(): string {
    return `${this.code}: ${this.message}`;
  }
}

export const topicRequired = () =>
  new ChannelError("TopicNameRequired", 'the topic of a channel must be "realtime:" and a name');
export const malformed = (what: string) => new ChannelError("MalformedJoin", what);
export const notPossible = (why: string) => new ChannelError("RealtimeDisabledForConfiguration", why);
export const badToken = (message: string) => new ChannelError("InvalidJWTToken", message);
export const tooManyChannels = (max: number, of: "socket" | "IP address") =>
  new ChannelError("ChannelRateLimitReached", `too many channels: the maximum for each ${of} is ${max}`);
export const channelsTooLarge = () =>
  new ChannelError(
    "ChannelRateLimitReached",
    "the channels of your IP address are too large: leave some, or filter less",
  );
export const tooManyJoins = () =>
  new ChannelError("ClientJoinRateLimitReached", "too many joins per second: try again");
export const tooManyPresenceMessages = (max: number) =>
  new ChannelError(
    "ClientPresenceRateLimitReached",
    `too many messages: the maximum is ${max} per second on a channel`,
  );
export const presenceTooLarge = (max: number) =>
  new ChannelError("PresenceTooLarge", `a presence has at most ${max} bytes`);
export const tooManyPresences = (max: number) =>
  new ChannelError("PresenceLimitReached", `the presences of a topic have at most ${max} bytes together`);
export const shortOfMemory = () =>
  new ChannelError(
    "PresenceLimitReached",
    "the clients of this network make the service hold too much: try again later",
  );
/** The code of the other interfaces: Supabase has no limit on requests. */
export const rateLimited = (message: string) => new ChannelError("RATE_LIMITED", message);
export const changesUnavailable = (why: string) => new ChannelError("ChangesUnavailable", why);
export const internal = (message: string) => new ChannelError("InternalError", message);
export const gap = () =>
  new ChannelError(
    "Gap",
    "the changes since this position are no longer kept: reload the data and subscribe without it",
  );
/** The grants or policies of the database do not allow what the join requests. */
export const mayNotSee = (why: string) => new ChannelError("Unauthorized", why);
// In the words of Supabase, which applications may look for.
export const mayNotRead = (topic: string) =>
  new ChannelError("Unauthorized", `You do not have permissions to read from this Channel topic: ${topic}`);
export const mayNotWrite = (topic: string) =>
  new ChannelError("Unauthorized", `You do not have permissions to write to this Channel topic: ${topic}`);
