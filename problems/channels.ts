/** What the channels of supabase-js refuse. */
export const CHANNELS = {
  "topic required": [400, "VALIDATION_ERROR", 'the topic of a channel must be "realtime:" and a name'],
  "malformed join": [400, "VALIDATION_ERROR", "{message}"],
  "channel not possible": [400, "VALIDATION_ERROR", "{message}"],
  "invalid channel token": [401, "AUTH_REQUIRED", "{message}"],
  "too many channels": [429, "RATE_LIMITED", "too many channels: the maximum for each {of} is {max}"],
  "channels too large": [
    429,
    "RATE_LIMITED",
    "the channels of your IP address are too large: leave some, or filter less",
  ],
  "too many joins": [429, "RATE_LIMITED", "too many joins per second: try again"],
  "too many presence messages": [
    429,
    "RATE_LIMITED",
    "too many messages: the maximum is {max} per second on a channel",
  ],
  "presence too large": [413, "VALIDATION_ERROR", "a presence has at most {max} bytes"],
  "too many presences": [429, "RATE_LIMITED", "the presences of a topic have at most {max} bytes together"],
  "presences hold too much": [
    429,
    "RATE_LIMITED",
    "the clients of this network make the service hold too much: try again later",
  ],
  "broadcasts hold too much": [
    429,
    "RATE_LIMITED",
    "broadcasts wait to be delivered, and the clients of this network make the service hold too much: send fewer",
  ],
  "replay not possible": [400, "VALIDATION_ERROR", "{message}"],
  "not shared": [
    503,
    "INTERNAL_ERROR",
    "the message has reached only the channels of one process, because REDIS_URL does not answer: try again later",
  ],
  "changes unavailable": [503, "INTERNAL_ERROR", "{message}"],
  "changes missed": [409, "RESOURCE_CONFLICT", "changes have been missed: subscribe again and reload the data"],
  "channel failed": [503, "INTERNAL_ERROR", "{message}"],
  /** The grants or policies of the database do not allow what the join requests. */
  "may not see": [403, "PERMISSION_DENIED", "{message}"],
  // In the words of Supabase, which applications may look for.
  "may not read topic": [
    403,
    "PERMISSION_DENIED",
    "You do not have permissions to read from this Channel topic: {topic}",
  ],
  "may not write topic": [
    403,
    "PERMISSION_DENIED",
    "You do not have permissions to write to this Channel topic: {topic}",
  ],
} as const;
