import type { ApiVersion } from "./version.ts";

/** The introduction of the reference page, in Markdown. */
export const guideOf = ({ version, isDeprecated, hasTasks }: ApiVersion): string =>
  [isDeprecated ? DEPRECATED : "", EVERYWHERE, LISTS[version], ERRORS[version], hasTasks ? TASKS : ""]
    .filter((text) => text !== "")
    .join("\n\n");

const DEPRECATED =
  "**This version is deprecated: use version 2.** Every response has the header `X-API-Warn`, and objects have the member `deprecation`.";

const EVERYWHERE = `Every path supports HEAD and OPTIONS. Other methods are answered with 405, and \`Allow\` lists those that the path supports.

## Versions

Choose a version with the prefix \`/api/v1\` or \`/api/v2\`, \`X-API-Version\`, \`Accept: application/vnd.content.v2+json\` or \`?version=2\`. The
default is version 1. If two of them name different versions, the response is 400.

## Conditional requests

Send \`ETag\` and \`Last-Modified\` of a response as \`If-None-Match\` and \`If-Modified-Since\` to get 304 when nothing has changed. Send those of a
record as \`If-Match\` and \`If-Unmodified-Since\` of a change to get 412 when another client has changed it.`;

const LISTS = {
  1: `## Lists

Use \`skip\` and \`limit\`, \`page\` from 1 and \`limit\`, or \`page\` from 0 and \`size\`: each has a different response body. All of them have the headers
\`X-Total-Count\` and \`Link\`.`,
  2: `## Lists

Use \`page\` from 1 and \`limit\`. The response has the records in \`data\`, and \`pagination\` and \`links\`.`,
} as const;

const ERRORS = {
  1: `## Errors

\`error.code\` is for programs, \`error.message\` for people. The status of an invalid body is 400.`,
  2: `## Errors

\`error.code\` is for programs, \`error.message\` for people. The status of an invalid body is 422, and \`errors\` lists every fault.`,
} as const;

const TASKS = `## Tasks

\`Prefer: respond-async\` with an array of new records, or for a whole collection: the response is 202 with the URL of the task that handles the request.`;
