import { Problem, problem } from "../problems/problem.ts";
import type { Reason } from "../problems/reasons.ts";
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
  "BroadcastLimitReached",
  "PresenceTooLarge",
  "PresenceLimitReached",
  "RATE_LIMITED",
  "NotShared",
  "UnableToReplayMessages",
  "ChangesUnavailable",
  "Gap",
  "InternalError",
] as const;

export type ReasonCode = (typeof REASON_CODES)[number];

/** Reason → code. The others are not for the clients of channels. */
const CODES: Readonly<Partial<Record<Reason, ReasonCode>>> = {
  "topic required": "TopicNameRequired",
  "malformed join": "MalformedJoin",
  "channel not possible": "RealtimeDisabledForConfiguration",
  "invalid channel token": "InvalidJWTToken",
  "too many channels": "ChannelRateLimitReached",
  "channels too large": "ChannelRateLimitReached",
  "too many joins": "ClientJoinRateLimitReached",
  "too many presence messages": "ClientPresenceRateLimitReached",
  "broadcasts hold too much": "BroadcastLimitReached",
  "presence too large": "PresenceTooLarge",
  "too many presences": "PresenceLimitReached",
  "presences hold too much": "PresenceLimitReached",
  // The code of the other interfaces: Supabase has no limit on requests.
  "too many requests": "RATE_LIMITED",
  "not shared": "NotShared",
  "replay not possible": "UnableToReplayMessages",
  "changes unavailable": "ChangesUnavailable",
  "changes missed": "Gap",
  "channel failed": "InternalError",
  "may not see": "Unauthorized",
  "may not read topic": "Unauthorized",
  "may not write topic": "Unauthorized",
};

/** Whether a client of a channel may get the error. */
export const isChannelProblem = (error: unknown): error is Problem => error instanceof Problem && error.reason in CODES;

export const channelCode = ({ reason }: Problem): ReasonCode => CODES[reason] ?? "InternalError";

/** `"Unauthorized: You do not have permissions to read from this Channel topic: x"` */
export const channelReason = (problem: Problem): string => `${channelCode(problem)}: ${problem.message}`;

export const malformed = (message: string) => problem("malformed join", { message });
export const notPossible = (message: string) => problem("channel not possible", { message });
/** In the words of Supabase, which applications may look for. */
export const noReplay = (message = "Realtime was unable to replay messages") =>
  problem("replay not possible", { message });
export const badToken = (message: string) => problem("invalid channel token", { message });
export const notKept = () =>
  problem("changes missed", {
    message: "the changes since this position are no longer kept: reload the data and subscribe without it",
  });
export const internal = (message: string) => problem("channel failed", { message });
export const mayNotSee = (message: string) => problem("may not see", { message });
